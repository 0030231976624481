<<<<<<< HEAD
"""Panel Deploy: the model over a mesh of devices."""
=======
"""Distributed deployment: plans, launches and what they show."""
>>>>>>> plan
