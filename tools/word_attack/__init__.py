"""What `attack_words.py` is made of.

Phrases and what is meant by them, what they really mean, and what came of attacking the language with them.
"""
