"""What an update of a running application changes, and what that does to it."""
