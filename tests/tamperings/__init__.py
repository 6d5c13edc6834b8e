"""The matrix of tamperings: every kind, in every segment, with and without seals, left as it is or made to fit."""
