"""What codes and numbers mean, as data: reasons, Xids, DCGM errors, figures of the tools."""
