"""How much memory a training needs on each device, by strategy and precision: arithmetic, no training."""
