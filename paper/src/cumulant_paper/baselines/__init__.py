"""What the paper compares with. Each trains any number of seeds, and for DQN tasks, as one vmapped program."""
