"""Is the migrated script on several processes the same experiment as the original on one?

`verify.verify` runs both in scratch copies and compares; `hooks` is what runs inside the interpreter that trains, the only
part which knows torch.
"""
