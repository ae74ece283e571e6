"""The annotation `bke.bocloud.com/retry`: by whom it is answered, and what it means when no run is open."""

from __future__ import annotations

import logging

from hopline.domain.errors import HoplineError, InvalidInput, PortError, bounded
from hopline.domain.node_revival import addresses_of
from hopline.domain.resources import ANNOTATION_RETRY
from hopline.domain.wire import ClusterKey
from starter.requests import Requests
from starter.wishes import Sight
from workflows.messages import RetryAnswerInput, RetryRequest

logger = logging.getLogger("starter.watch")


class RetryAnnotations:
    """Hands the annotation to the open run; without one a worker answers it, who alone may write."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def hand_over(self, cluster: ClusterKey, sight: Sight) -> bool:
        """Let the open run answer: it goes on when it is held. False: it is ending, ask again when it has.

        Raises NotFound when no run is open, PortError when nobody answers just now.
        """
        request = RetryRequest(annotation=True, reason=ANNOTATION_RETRY, nodes=addresses_of(sight.retry_value or ""))
        try:
            await self._requests.retry(cluster, request)
        except PortError:
            raise
        except InvalidInput as error:
            logger.warning("%s: the retry annotation was refused: %s", cluster, error)
        except HoplineError as error:
            logger.warning("%s: the retry annotation comes too late: %s", cluster, error)
            return False
        else:
            logger.info("%s: retried, because the annotation asked for it", cluster)
        return True

    async def before_start(self, cluster: ClusterKey, sight: Sight) -> bool:
        """Revive the nodes before a wish is planned; the run that opens its hop removes the annotation.

        False: it names an unknown node, which was told by an event, and it is removed.
        """
        return await self._answer(cluster, sight, keep=True)

    async def after_refusal(self, cluster: ClusterKey, sight: Sight, refusal: HoplineError) -> None:
        """The wish was planned again and refused: no run has removed the annotation."""
        told = f"the upgrade to {sight.wish.desired} was planned again, and is refused: {refusal.message}"
        await self._answer(cluster, sight, told=bounded(told))

    async def nothing_held(self, cluster: ClusterKey, sight: Sight) -> None:
        """No run is open, and no upgrade is asked for: say so."""
        await self._answer(cluster, sight, told=sight.nothing_held)

    async def _answer(self, cluster: ClusterKey, sight: Sight, *, keep: bool = False, told: str = "") -> bool:
        value = sight.retry_value or ""
        answer = RetryAnswerInput(cluster=cluster, nodes=addresses_of(value), annotation=value, keep=keep, told=told)
        try:
            await self._requests.answer_retry(answer)
        except PortError:
            raise
        except InvalidInput as error:
            logger.warning("%s: the retry annotation was refused: %s", cluster, error)
            return False
        except HoplineError as error:
            logger.warning("%s: the retry annotation is left to others: %s", cluster, error)
        return True
