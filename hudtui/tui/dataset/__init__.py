"""The dataset screen: tasks, their problems, and what is made of them."""
