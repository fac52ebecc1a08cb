"""The losses that compare a whole batch, as functions of tensors."""
