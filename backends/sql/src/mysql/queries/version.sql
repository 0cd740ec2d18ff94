-- Answers: version
SELECT version FROM {meta}
