import json
import logging


class Settings:
    LEVELS = {0: logging.WARNING, 1: logging.INFO}

    def __init__(self, values, name):
        self.values = values
        self.name = name

    @classmethod
    def from_file(cls, path, name="run"):
        with open(path) as file:
            values = json.load(file)
        return cls(values, name)

    def make(self, kind, module, *args, **more):
        entry = self.values[kind]
        return getattr(module, entry["type"])(*args, **{**entry["args"], **more})

    def __getitem__(self, key):
        return self.values[key]
