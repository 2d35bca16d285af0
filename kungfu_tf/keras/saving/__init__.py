"""Whole files: whatever ends the process, what was saved before can be loaded.

`whole_file.py` writes a file under another name, and renames it. `model_files.py` does it for
Keras' `save` and `save_weights`, `backup_folder.py` for the files of a `BackupAndRestore`, which
belong together. `algorithm_state.py` writes one of them, and `own_parts.py` one of each peer, in
the form of `packed_values.py`.
"""
