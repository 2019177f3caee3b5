"""The long-lived service: capture, schedule, audit and upkeep of one project, on one warm Spark session."""
