"""One coordinator per project: goes over to plans, replans when measurements differ, reports state, compares views."""
