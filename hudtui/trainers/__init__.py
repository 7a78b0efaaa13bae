"""What trains on the machine, inside the training environment. Its modules import torch and TRL; nothing else of hudtui does."""
