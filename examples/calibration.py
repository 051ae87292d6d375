"""
Calibration: are the probabilities to be trusted?
=================================================

Compare probabilities of the default with those of a random forest, naive Bayes and logistic regression.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from histogp import HistogramGPClassifier

X, y = make_classification(
    6_000, n_features=20, n_informative=8, n_redundant=6, n_clusters_per_class=3, flip_y=0.1, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=800, random_state=0)

# %%
# The logarithmic loss counts accuracy and calibration together: small is good.

models = {
    "histogp": HistogramGPClassifier(),
    "random forest": RandomForestClassifier(random_state=0),
    "naive Bayes": GaussianNB(),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
}
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
for name, model in models.items():
    probabilities = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    loss = log_loss(y_test, probabilities)
    print(f"{name:20} log loss {loss:.3f}, accuracy {((probabilities > 0.5) == y_test).mean():.3f}")
    CalibrationDisplay.from_predictions(y_test, probabilities, n_bins=12, strategy="quantile", name=name, ax=ax)
plt.show()
