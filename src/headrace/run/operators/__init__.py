"""What operators make of tables of changes: pure functions over Arrow."""
