class Config:
    use_ddp = False
    epochs = 2
    batch_size = 25
    lr = 0.02
