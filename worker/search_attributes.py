"""Registers Hopline's search attributes, so that a list of workflows can be asked which upgrade is held."""

from __future__ import annotations

import logging

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from workflows.identifiers import SEARCH_ATTRIBUTES

logger = logging.getLogger(__name__)


async def ensure_search_attributes(client: Client) -> bool:
    """Register what is missing. False when they cannot be used: the run then records "no" and goes on without.

    Idempotent, also when several workers start at once. Temporal Cloud and locked-down servers refuse the operator API;
    an attribute that was registered by hand with another type counts as "cannot" too, because an upsert of it would
    hang the run (temporal.md §3.3).
    """
    try:
        known = await _registered(client)
        missing = [key.name for key in SEARCH_ATTRIBUTES if key.name not in known]
        if missing:
            await _add(client, missing)
            known = await _registered(client)
    except RPCError as error:
        logger.warning("search attributes cannot be registered (%s); runs go on without them", error.message)
        return False
    wrong = [
        key.name for key in SEARCH_ATTRIBUTES if known.get(key.name) != IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    ]
    if wrong:
        logger.warning("search attributes %s are not of type Keyword; runs go on without them", ", ".join(wrong))
    return not wrong


async def _registered(client: Client) -> dict[str, int]:
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), retry=True
    )
    return {name: int(value) for name, value in answer.custom_attributes.items()}


async def _add(client: Client, names: list[str]) -> None:
    keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=dict.fromkeys(names, keyword))
    try:
        await client.operator_service.add_search_attributes(request, retry=True)
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
