"""The outside world and nothing else: Spark, databases, brokers, sockets, clocks."""
