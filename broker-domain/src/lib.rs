//! Stage 1 to 6, the vocabulary.
