"""The nouns that travel between the stages: values only, frozen, importing nothing else of ours."""
