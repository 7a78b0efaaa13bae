"""The programs that train on a machine, inside the training environment.

Only these modules import torch and TRL.
"""
