from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest, RemoveSearchAttributesRequest
from temporalio.client import Client

from starter.dev_server import dev_server
from worker.search_attributes import ensure_search_attributes
from workflows.identifiers import SEARCH_ATTRIBUTES


async def test_registers_once_and_again_without_harm(temporal_client: Client) -> None:
    assert await ensure_search_attributes(temporal_client)
    assert await ensure_search_attributes(temporal_client)
    answer = await temporal_client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=temporal_client.namespace)
    )
    for key in SEARCH_ATTRIBUTES:
        assert answer.custom_attributes[key.name] == IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD


async def test_an_attribute_of_another_type_is_cannot() -> None:
    async with dev_server(extra=["--search-attribute", "HoplinePhase=Int"]) as server:
        client = await Client.connect(server.address)
        assert not await ensure_search_attributes(client)


async def test_a_missing_one_is_added_beside_those_that_exist() -> None:
    async with dev_server() as server:
        client = await Client.connect(server.address)
        assert await ensure_search_attributes(client)
        await client.operator_service.remove_search_attributes(
            RemoveSearchAttributesRequest(namespace="default", search_attributes=["HoplineHop"])
        )
        assert await ensure_search_attributes(client)
