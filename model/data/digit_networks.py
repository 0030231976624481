"""The networks of the digits demos. It imports torch: `espalier.model.sources.demos` imports it lazily."""

from torch import Tensor, nn


class DigitsCNN(nn.Module):
    """Three conv-batchnorm-relu stages: x float32 [n, 1, 8, 8] → logits [n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv3, self.bn3 = nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """x [n, 1, 8, 8] → logits [n, 10]."""
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.pool(self.relu(self.bn2(self.conv2(x))))
        x = self.pool(self.relu(self.bn3(self.conv3(x))))
        return self.classifier(self.flatten(x))


class DigitsMLP(nn.Module):
    """64-64-32-10, as the hardware lab uses: x float32 [n, 1, 8, 8] → logits [n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(64, 64)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(64, 32)
        self.relu2 = nn.ReLU()
        self.fc3 = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        """x [n, 1, 8, 8] → logits [n, 10]."""
        x = self.relu1(self.fc1(self.flatten(x)))
        return self.fc3(self.relu2(self.fc2(x)))
