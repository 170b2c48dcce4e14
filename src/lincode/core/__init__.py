"""The paper's mathematics on arrays: numpy and scipy only, nothing remembered, nothing printed.

Letters are the paper's with one row per hidden unit: samples ``X (N, p)``, codes
``U (N, m)``, dictionary ``D (m, p)``, encoder ``C (m, p)``, sparsity ``lam``, and
``eta``, the weight of the encoder term (1 in the paper).
"""
