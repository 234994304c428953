"""Whether a plugin is what the engine expects: attributes, and a dry call of everything it must do."""
