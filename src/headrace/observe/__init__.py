"""Events become lag, violations, cost and measured rates."""
