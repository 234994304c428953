"""How each family of model servers spells requests, replies and errors. No network here."""
