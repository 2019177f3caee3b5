"""How processes that doors start begin: see the module of `connect`, which processes of captures use as well."""

from headrace.connect.lean_start import keep_pandas_out

__all__ = ["keep_pandas_out"]
