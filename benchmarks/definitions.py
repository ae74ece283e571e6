"""CustomResourceDefinitions as generators write them: long schemas, with the descriptions of a type's comments."""

from __future__ import annotations

_HEAD = """---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things{number}.{group}{annotations}
spec:
  group: {group}
  names:
    kind: Thing{number}
    plural: things{number}
    singular: thing{number}
    listKind: Thing{number}List
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
"""
_FIELD = """              field{number}:
                description: |-
                  What this field means, as a generator copies it from the comments of a type.
                  It goes on for more than one line, because the authors were careful.
                type: object
                properties:
                  replicas:
                    description: how many
                    format: int32
                    minimum: 1
                    type: integer
                  names:
                    items:
                      type: string
                    type: array
                required:
                - names
"""


def definition(number: int, group: str, fields: int, *, annotation: str = "") -> str:
    """One document, begun with its separator; every field takes about 500 bytes.

    Args:
        annotation: `key: value`, as it shall stand there.
    """
    annotations = f"\n  annotations:\n    {annotation}" if annotation else ""
    head = _HEAD.format(number=number, group=group, annotations=annotations)
    return head + "".join(_FIELD.format(number=at) for at in range(fields))
