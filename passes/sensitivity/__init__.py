"""Sensitivities of the outputs to every format at every port: predicted from one gradient pass, and measured."""
