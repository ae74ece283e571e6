import pytest
from temporalio.contrib.pydantic import pydantic_data_converter

from hopline.domain.errors import Transient
from hopline.runtime.settings import Settings
from hopline.runtime.temporal import connect
from starter.dev_server import free_port


async def test_connects_with_the_pydantic_converter_and_an_identity(temporal_address: str) -> None:
    client = await connect(Settings.from_environment({"TEMPORAL_ADDRESS": temporal_address}), role="hopline test")
    assert client.identity.startswith("hopline test ")
    assert client.data_converter.payload_converter_class is pydantic_data_converter.payload_converter_class


async def test_a_dead_address_is_named_with_the_remedy() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(Transient) as caught:
        await connect(Settings.from_environment({"TEMPORAL_ADDRESS": address}), role="test")
    assert caught.value.value == address
    assert "TEMPORAL_ADDRESS" in caught.value.remedy
