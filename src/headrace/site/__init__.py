"""What one site's process does: captures changes, pushes views in rounds, keeps logs small, and delivers copies."""
