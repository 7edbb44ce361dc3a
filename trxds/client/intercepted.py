"""An `InterceptedMethod` makes each call as a block within the blocks of the channel's interceptors."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, Unpack, cast

from trxds.core import metadata as md

from .call import Call
from .call_protocol import CallOptions, CallProtocol
from .completed_call import CompletedCall
from .interceptors import CallDetails, Interceptor, Next, name_of
from .method import Method, checked_path, receive_only_reply, swallowed_error

Req = TypeVar("Req")
Res = TypeVar("Res")


class InterceptedMethod(Method[Req, Res]):
    """A method of a channel with interceptors, of which the first is the outermost."""

    def __init__(self, interceptors: Sequence[Interceptor], *of_method: Any) -> None:
        super().__init__(*of_method)
        self._interceptors = interceptors

    async def __call__(self, request: Req | Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]) -> Res:
        reply, _ = await self.with_call(request, **options)
        return reply

    async def with_call(
        self, request: Req | Iterable[Req] | AsyncIterable[Req], **options: Unpack[CallOptions]
    ) -> tuple[Res, CompletedCall]:
        if self.client_streaming or self.server_streaming:
            return await super().with_call(request, **options)
        # The request is sent in the block, because an interceptor may swallow the exception of that too.
        async with self._open(None, **options) as call:
            await self._begin(call, cast(Req, request))
            return await receive_only_reply(call)
        raise swallowed_error(self.path)

    @asynccontextmanager
    async def _open(
        self, begin: Callable[[Call[Req, Res]], Awaitable[None]] | None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[Call[Req, Res]]:
        call = None
        try:
            async with self._enter_interceptors(**options) as call:
                if call is None or not hasattr(call, "receive"):  # such as the reply itself
                    raise self._no_call_error()
                if begin is not None:
                    await begin(call)
                yield call
        except RuntimeError as error:
            if call is None and _is_without_yield(error):
                raise self._no_call_error() from None
            raise

    def _no_call_error(self) -> RuntimeError:
        names = " or ".join(name_of(each) for each in self._interceptors)
        remedy = "it must yield one, as in `async with next(call) as stream: yield stream`"
        return RuntimeError(f"{self.path}: the interceptor {names} yielded no call; {remedy}")

    def _enter_interceptors(self, **options: Unpack[CallOptions]) -> AbstractAsyncContextManager[Call[Req, Res] | None]:
        streaming = {"client_streaming": self.client_streaming, "server_streaming": self.server_streaming}
        details = CallDetails(self.path, **streaming, **options)
        # Checked here, so that interceptors get lower-case keys, whatever the caller wrote.
        details = replace(details, metadata=md.check(details.metadata or ()))
        enter: Next = self._innermost
        for interceptor in reversed(self._interceptors):
            enter = partial(_enter_interceptor, interceptor, enter)
        # An interceptor may put its own call in the place of the `Call`; `CallProtocol` has all of its public methods.
        return cast(AbstractAsyncContextManager[Call[Req, Res] | None], enter(details))

    def _innermost(self, details: CallDetails) -> AbstractAsyncContextManager[CallProtocol[Any, Any]]:
        method = self
        if details.method != self.path:
            # A copy, because the method object may be in use by other calls with its own path.
            method = copy(self)
            method.path = checked_path(details.method)
        return Method._open(
            method,
            None,
            timeout=details.timeout,
            metadata=details.metadata,
            wait_for_ready=details.wait_for_ready,
            compression=details.compression,
            credentials=details.credentials,
            authority=details.authority,
        )


def _enter_interceptor(
    interceptor: Interceptor, next: Next, details: CallDetails
) -> AbstractAsyncContextManager[CallProtocol[Any, Any]]:
    return interceptor(details, next)


def _is_without_yield(error: RuntimeError) -> bool:
    return str(error) == "generator didn't yield"  # contextlib's words; its traceback does not name the generator
