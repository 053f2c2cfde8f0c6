"""Lint the conda recipe by the JSON Schema of recipes.

The schema is ``schema.json`` of https://github.com/prefix-dev/recipe-format.

    python tests/stress/recipe_schema.py schema.json
"""

import json
import sys
from pathlib import Path

import jsonschema
import yaml

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "packaging" / "conda" / "recipe.yaml"


def main(schema: str) -> None:
    rules = json.loads(Path(schema).read_text(encoding="utf-8"))
    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    judge = jsonschema.validators.validator_for(rules)(rules)
    errors = list(judge.iter_errors(recipe))
    for error in errors:
        print(list(error.absolute_path), error.message)
    if errors:
        raise SystemExit(f"{len(errors)} errors")
    print(f"{RECIPE.name}: 0 errors")


if __name__ == "__main__":
    main(sys.argv[1])
