"""Ozdayi, Kantarcioglu, Iyer 2020, tricks of the server in non-IID settings."""
