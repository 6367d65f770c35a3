"""Every limit of `broker/limits.py` has a reason beside it, and a test of what happens just below, at and above it."""

import ast
import re
from pathlib import Path

import pytest

from mqlab.broker import limits
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings

from .server.raw_client import Raw, in_loop

HERE = Path(__file__).parent
NAMES = [name for name in vars(limits) if name.isupper()]
# Where each is tested.
TESTED = {
    "FRAME": "server/test_limits.py::test_a_frame_is_bounded",
    "FRAME_LEAST": "test_settings.py::test_the_size_of_a_message_has_limits_of_its_own",
    "FRAME_MOST": "test_settings.py::test_the_size_of_a_message_has_limits_of_its_own",
    "FRAME_BEFORE_HELLO": "server/test_limits.py::test_a_stranger_has_room_for_a_greeting_and_no_more",
    "HELLO_SECONDS": "server/test_limits.py::test_a_silent_connection_is_ended",
    "ACCEPT_PAUSE": "server/test_listener.py::test_a_lack_of_descriptors_is_logged_and_ends_by_itself",
    "KEEPALIVE_IDLE": "server/test_listener.py::test_the_system_asks_whether_a_silent_client_is_there",
    "KEEPALIVE_INTERVAL": "server/test_listener.py::test_the_system_asks_whether_a_silent_client_is_there",
    "KEEPALIVE_PROBES": "server/test_listener.py::test_the_system_asks_whether_a_silent_client_is_there",
    "CERTIFICATE_DAYS": "server/test_listener.py::test_a_certificate_that_expires_is_logged_at_the_start",
    "NAME": "core/model/test_destination_names.py::test_a_name_is_bounded_in_bytes",
    "LINKS_A_CONNECTION": "server/test_limits.py::test_sessions_and_links_of_a_connection_are_bounded",
    "SESSIONS_A_CONNECTION": "server/test_limits.py::test_sessions_and_links_of_a_connection_are_bounded",
    "CONNECTIONS": "server/test_limits.py::test_connections_are_bounded",
    "TRANSACTION": "core/transactions/test_commit.py::test_a_transaction_is_bounded",
    "TRANSACTION_SENDS": "core/test_accounts.py::test_sends_of_a_transaction_are_bounded",
    "TRANSACTIONS_OF_A_CONNECTION": "core/test_accounts.py::test_transactions_of_a_connection_have_a_part_of_memory",
    "TRANSACTIONS_OF_ALL": "core/test_accounts.py::test_open_transactions_of_all_connections_leave_memory_for_messages",
    "TRANSACTIONS_LEAST": "core/test_accounts.py::test_little_memory_leaves_room_for_small_transactions",
    "TRANSACTIONS_OF_CHANNELS": "core/test_accounts.py::test_a_channel_has_room_for_its_batch",
    "SESSION_BYTES": "core/test_accounts.py::test_all_that_connections_open_is_charged_and_bounded",
    "PRODUCER_BYTES": "core/test_accounts.py::test_all_that_connections_open_is_charged_and_bounded",
    "CONSUMER_BYTES": "core/test_accounts.py::test_all_that_connections_open_is_charged_and_bounded",
    "SELECTOR_BYTES": "core/test_accounts.py::test_all_that_connections_open_is_charged_and_bounded",
    "RECEIVE_BYTES": "core/test_accounts.py::test_all_that_connections_open_is_charged_and_bounded",
    "TEMPORARY_QUEUE_BYTES": "core/test_accounts.py::test_all_that_connections_open_is_charged_and_bounded",
    "RECEIVES_CHARGED": "core/test_accounts.py::test_answered_receives_are_charged_no_longer",
    "OPENED_FREE": "core/test_accounts.py::test_all_that_connections_open_is_charged_and_bounded",
    "OPENED_SHARE": "core/test_accounts.py::test_all_that_connections_open_is_charged_and_bounded",
    "OPENED_WHEN_FULL_SHARE": "core/test_accounts.py::test_a_full_broker_opens_less",
    "OPENED_LEAST": "core/test_accounts.py::test_a_small_broker_has_memory_for_what_clients_open",
    "DEAD_LETTERS_SHARE": "core/test_dead_letters.py::test_dead_letters_take_a_part_of_memory_and_no_more",
    "DEAD_LETTERS_LEAST": "core/test_dead_letters.py::test_dead_letters_take_a_part_of_memory_and_no_more",
    "PREPARED": "core/test_accounts.py::test_prepared_transactions_are_bounded",
    "RECEIVES_A_CONNECTION": "core/test_accounts.py::test_waiting_receives_are_bounded",
    "RECEIVE_ID": "core/test_accounts.py::test_the_id_of_a_waiting_receive_is_bounded",
    "TEMPORARY_QUEUES_A_CONNECTION": "core/test_accounts.py::test_temporary_queues_of_a_connection_are_bounded",
    "DESTINATIONS": "core/test_accounts.py::test_destinations_are_bounded",
    "SUBSCRIPTIONS_A_TOPIC": "core/test_accounts.py::test_subscriptions_of_a_topic_are_bounded",
    "SELECTOR_WEIGHT": "core/test_accounts.py::test_a_subscription_with_a_selector_weighs_more",
    "SELECTOR_PART": "core/test_accounts.py::test_a_long_selector_counts_as_several",
    "SELECTORS_A_QUEUE": "core/test_accounts.py::test_selectors_of_a_queue_are_bounded",
    "CREDIT_SHARE": "core/test_accounts.py::test_the_credit_of_many_producers_is_bounded",
    "CREDIT_LEAST": "core/test_accounts.py::test_the_credit_of_many_producers_is_bounded",
    "OVERDRAFT_SHARE": "core/test_accounts.py::test_what_credit_does_not_count_is_refused_above_the_limit",
    "OVERDRAFT_LEAST": "core/test_accounts.py::test_what_credit_does_not_count_is_refused_above_the_limit",
    "TOPIC_LEAST": "core/test_topic_memory.py::test_a_topic_may_always_take_some_bytes",
    "TOPIC_OVERDRAFT": "core/test_topic_memory.py::test_credit_that_is_left_is_refused_before_the_memory_is_full",
    "UNCOUNTED_SHARE": "core/test_flow.py::test_of_a_large_limit_a_share_is_allowed_to_what_is_not_counted",
    "UNCOUNTED_LEAST": "core/test_flow.py::test_growth_below_what_is_allowed_holds_nobody_back",
    "UNCOUNTED_BESIDE": "core/test_flow.py::test_growth_holds_nobody_back_whose_queues_are_nearly_empty",
    "GROUPS": "core/test_groups.py::test_groups_are_not_remembered_without_end",
    "CHANNEL_MEMORY": "core/test_flow.py::test_a_client_that_poses_as_a_channel_is_held_at_a_bound_of_its_own",
    "UNFINISHED_SHARE": "server/native/test_unfinished_frames.py::test_long_frames_that_stop_to_grow_are_bounded",
    "PREFETCH": "server/test_limits.py::test_the_room_of_a_consumer_is_bounded",
    "SELECTOR": "core/selectors/test_limits.py::test_a_text_has_at_most_4_kib",
    "SELECTOR_DEPTH": "core/selectors/test_limits.py::test_brackets_are_nested_so_deep_and_no_deeper",
    "LIKE_FLOATING": "core/selectors/test_limits.py::test_floating_single_wildcards_are_bounded",
    "CONNECTIONS_AN_ADDRESS": "test_limits.py::test_connections_of_one_address_are_bounded",
    "USER_NAME": "security/test_users.py::test_names_up_to_the_limit",
    "PASSWORD": "security/test_passwords.py::test_limits",
    "PASSWORD_LEAST": "security/test_passwords.py::test_limits",
    "RIGHTS_A_USER": "security/test_rights.py::test_a_user_has_so_many_rights",
    "ANSWERS_A_USER": "security/test_rights.py::test_answers_are_remembered_but_not_without_end",
    "LOGIN_FAILURES": "security/test_guard.py::test_so_many_failures_make_an_address_suspect_whatever_the_users",
    "LOGIN_PAUSE": "server/test_login.py::test_guesses_of_an_address_are_checked_slowly_after_so_many",
    "LOGIN_FAILURE_SECONDS": "security/test_guard.py::test_old_failures_are_forgotten",
    "LOGIN_DELAY_LEAST": "security/test_guard.py::test_each_failure_delays_the_answer_twice_as_long",
    "LOGIN_DELAY": "security/test_guard.py::test_each_failure_delays_the_answer_twice_as_long",
    "FAILING_ADDRESSES": "security/test_guard.py::test_memory_is_bounded_whatever_fails",
    "LOG_LINES_A_SECOND": "server/test_refusal_log.py::test_refusals_do_not_fill_the_log",
    "WRITTEN_FILE": "test_config.py::test_a_file_has_so_many_bytes",
    "XID": "core/transactions/test_two_phase_commit.py::test_names_are_bounded",
    "STOMP_HEADERS": "server/stomp/test_hostile.py::test_the_number_of_headers",
    "STOMP_HEADER": "server/stomp/test_hostile.py::test_the_length_of_a_header",
    "STOMP_HEAD": "server/stomp/test_hostile.py::test_the_length_of_all_headers",
    "STOMP_HEAD_ROOM": "server/stomp/test_hostile.py::test_the_length_of_a_body",
    "STOMP_HEART_BEAT": "server/stomp/test_components.py::test_heart_beats_are_negotiated",
    "ADAPTER_PRODUCERS": "server/stomp/test_connection_memory.py::test_destinations_that_are_no_longer_used_are_let_go",
    "AMQP_CREDIT": "server/amqp/test_protocol.py::test_transfer_without_credit_detaches_the_link",
    "AMQP_WINDOW": "server/amqp/test_protocol.py::test_session_window_is_kept_and_renewed",
    "AMQP_FRAME": "server/amqp/test_protocol.py::test_frame_after_login_is_limited",
    "AMQP_WAITING": "server/amqp/test_protocol.py::test_messages_beyond_the_credit_of_the_broker_wait",
    "AMQP_UNSENT": "server/amqp/test_hostile.py::test_session_whose_window_is_closed_gets_no_more",
    "AMQP_SESSIONS": "server/amqp/test_protocol.py::test_channels_and_handles_are_limited",
    "AMQP_LINKS": "server/amqp/test_protocol.py::test_channels_and_handles_are_limited",
    "AMQP_IDLE": "server/amqp/test_protocol.py::test_idle_client_is_ended",
    "AMQP_IDLE_LEAST": "server/amqp/test_protocol.py::test_open_that_cannot_be_served_is_refused",
    "AMQP_SECTIONS_ROOM": "server/amqp/test_protocol.py::test_message_that_is_too_large_detaches_the_link",
    "MQTT_CONNECT": "server/mqtt/test_hostile.py::test_the_length_of_connect",
    "MQTT_HEAD_ROOM": "server/mqtt/test_hostile.py::test_the_length_of_a_packet",
    "MQTT_RECEIVE_MAXIMUM": "server/mqtt/test_messages.py::test_a_client_that_sends_more_than_the_broker_takes",
    "MQTT_PREFETCH": "server/mqtt/test_sessions.py::test_a_slow_client_has_few_messages_under_way",
    "MQTT_TOPIC_ALIASES": "server/mqtt/test_messages.py::test_a_topic_alias_that_is_not_valid",
    "MQTT_KEEP_ALIVE": "server/mqtt/test_sessions.py::test_keep_alive",
    "MQTT_SUBSCRIPTIONS": "server/mqtt/test_sessions.py::test_subscriptions_of_a_session_are_bounded",
    "MQTT_STATE_SHARE": "server/mqtt/test_messages.py::test_retained_messages_take_a_part_of_memory",
    "MQTT_SYS_SECONDS": "server/mqtt/test_messages.py::test_what_the_broker_says_of_itself",
    "HTTP_HEAD": "server/websocket/test_requests.py::test_the_length_of_a_request",
    "WEBSOCKET_BEFORE_HELLO": "server/websocket/test_limits.py::test_before_it_is_let_in_it_has_less_room",
    "TURN_NS": "server/test_slices.py::test_a_connection_with_long_work_waits_for_the_others",
    "TIME_SHARE": "server/test_time_share.py::test_a_share_is_used_up_by_work_and_comes_back_with_time",
    "SLICE": "core/dispatch/test_browser.py::test_a_deep_queue_is_seen_in_slices",
    "LISTED": "server/test_slices.py::test_a_list_comes_in_parts",
}


def test_no_limit_is_without_a_test() -> None:
    assert [*TESTED] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_test_of_a_limit_is_there(name: str) -> None:
    file, _, test = TESTED[name].partition("::")
    tree = ast.parse((HERE / file).read_text())
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert test in found


def test_every_limit_says_why() -> None:
    """A comment before it, or before the one it belongs to."""
    lines = Path(limits.__file__).read_text().splitlines()
    before = ""
    for line in lines:
        if re.match(r"[A-Z_]+: Final", line):
            assert before.startswith(("# ", "_")) or re.match(r"[A-Z_]+: Final", before), line
        before = line


@pytest.mark.parametrize("more", [-1, 0, 1])
@in_loop
async def test_connections_of_one_address_are_bounded(
    more: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those over a Unix socket have no address: they come in whoever else is there."""
    monkeypatch.setattr(limits, "CONNECTIONS_AN_ADDRESS", 3)
    settings = Settings(listen=("tcp:127.0.0.1:0", f"unix:{tmp_path / 'socket'}"))
    async with running(settings) as (broker, (address, local)):
        for _ in range(2 + more):
            await Raw.connect(address)
        if more <= 0:
            await Raw.connect(address)
        else:
            assert "3 connections from one address" in await (await Raw.connect(address, greet=False)).is_ended()
        await Raw.connect(local)
        assert len(broker.connections) == 4 + min(more, 0)
