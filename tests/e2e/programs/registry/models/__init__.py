from .resnet import SmallResNet

_REGISTRY = {cls.__name__: cls for cls in (SmallResNet,)}


def build(name, **kwargs):
    return _REGISTRY[name](**kwargs)
