"""What operators do in the console, and what others may not do there. Things are found by the words on
the page, as people find them. Each scenario has names of its own, so that any can run alone."""

import functools
import gzip
import http.server
import re
import threading
import time

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from broker import until

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>"


def scenario(function):
    """Marks what `run.py` runs."""
    function.is_scenario = True
    return function


def declare(stage, name, **fields):
    """Declares a queue by the form."""
    stage.open("/queues")
    stage.page.get_by_text("Declare a queue").click()
    stage.page.get_by_label("Name", exact=True).fill(name)
    for label, value in fields.items():
        stage.page.get_by_label(label.replace("_", " "), exact=True).fill(value)
    stage.page.get_by_role("button", name="Declare queue").click()


def queue_path(name, more=""):
    return f"/queues/%2F/{name}{more}"


def row(page, name):
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


# The log-in.


@scenario
def a_visitor_is_led_to_the_log_in(stage):
    stage.open("/")
    for label in ["User", "Password"]:
        expect(stage.page.get_by_label(label)).to_be_visible()
    expect(stage.page.get_by_role("button", name="Log in")).to_be_visible()
    expect(stage.page.get_by_text("Ready: clients are served.")).to_be_visible()
    stage.picture("log-in")


@scenario
def a_wrong_password_is_refused_and_the_name_stays(stage):
    stage.log_in(password="wrong")
    expect(stage.page.get_by_role("alert")).to_have_text("User or password is wrong.")
    expect(stage.page.get_by_label("User")).to_have_value("guest")
    expect(stage.page.get_by_label("Password")).to_have_value("")


@scenario
def a_log_in_leads_to_the_page_that_was_wanted(stage):
    stage.open("/queues?name=some")
    stage.page.get_by_label("User").fill("guest")
    stage.page.get_by_label("Password").fill("guest")
    stage.page.keyboard.press("Enter")
    expect(stage.page).to_have_url(re.compile(r"/queues\?name=some$"))


@scenario
def a_log_out_ends_the_session(stage):
    stage.log_in()
    cookies = stage.page.context.cookies()
    stage.page.get_by_role("button", name="Log out").click()
    expect(stage.page.get_by_role("button", name="Log in")).to_be_visible()
    stage.page.context.add_cookies([cookie for cookie in cookies if cookie["name"] == "hermod"])
    stage.open("/queues")
    expect(stage.page.get_by_role("button", name="Log in")).to_be_visible()


@scenario
def colours_are_chosen_and_kept(stage):
    stage.log_in()
    ground = lambda: stage.page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = ground()
    for chosen in ["light", "dark"]:
        stage.page.get_by_role("button", name="Colours").click()
        expect(stage.page.locator("html")).to_have_attribute("data-theme", chosen)
    assert ground() != light
    stage.open("/queues")
    expect(stage.page.locator("html")).to_have_attribute("data-theme", "dark")


@scenario
def every_part_is_a_link_in_the_navigation(stage):
    stage.log_in()
    for name in ["Overview", "Connections", "Queues", "Exchanges", "Policies", "Users", "Virtual hosts", "Sessions",
                 "Shovels", "Limits", "Log", "Audit", "Node", "About"]:
        if name == "Sessions":
            stage.page.get_by_text("More", exact=True).click()
        link = stage.page.get_by_role("navigation").get_by_role("link", name=name)
        link.click()
        expect(stage.page.get_by_role("heading", level=1)).to_have_text(name)
        expect(link).to_have_attribute("aria-current", "page")
        if name in ("Exchanges", "Users"):
            stage.picture(name.lower())


# The overview.


@scenario
def the_overview_names_what_does_not_move_and_leads_there(stage):
    stage.broker.declare("overview.stuck")
    stage.broker.publish("overview.stuck", 3)
    stage.log_in()
    line = stage.page.get_by_role("listitem").filter(has_text="overview.stuck")
    expect(line).to_contain_text("no consumers")
    expect(line).to_contain_text("3 ready")
    line.get_by_role("link").click()
    expect(stage.page.get_by_role("heading", level=1)).to_have_text("overview.stuck")


@scenario
def the_overview_draws_how_messages_move(stage):
    for queue, per_second in [("orders", 180), ("invoices", 60), ("emails", 20)]:
        stage.broker.declare(queue)
        stage.client(f"{queue}-publisher").flow(queue, per_second)
    for queue in ["orders", "invoices"]:
        stage.client(f"{queue}-worker").consume(queue, 100, "worker", settle=True)
    stage.log_in()
    chart = stage.page.get_by_role("img", name=re.compile("^Messages per second in the last"))
    expect(chart).to_be_visible(timeout=30_000)
    legend = stage.page.locator("figcaption").filter(has_text="Messages per second")
    expect(legend).to_contain_text(re.compile(r"in [1-9]\d*/s"), timeout=30_000)
    if stage.pictures:
        # Long enough for lines that are worth a look, with a rush in the middle.
        time.sleep(40)
        rush = stage.client("orders-rush")
        rush.flow("orders", 150)
        time.sleep(35)
        rush.stop()
        time.sleep(25)
    stage.picture("overview")


@scenario
def an_alarm_is_told_on_every_page(stage):
    stage.log_in()
    stage.broker.command("alarms", "set", "memory")
    try:
        for path in ["/", "/queues", "/users"]:
            stage.open(path)
            expect(stage.page.get_by_text("Low on memory:")).to_be_visible()
    finally:
        stage.broker.command("alarms", "clear", "memory")
    stage.open("/")
    expect(stage.page.get_by_text("Low on memory:")).to_have_count(0)


# Queues.


@scenario
def a_queue_is_declared_with_its_arguments(stage):
    stage.log_in()
    declare(stage, "declared", TTL="60000", Max_length="10", Dead_letter_exchange="dlx",
            Arguments='{"x-max-priority": 5}')
    expect(stage.page.get_by_text("Queue 'declared' is declared.")).to_be_visible()
    expect(stage.page.get_by_text("no consumers").first).to_be_visible()
    assert stage.broker.queue("declared")["arguments"] == {
        "x-message-ttl": 60000, "x-max-length": 10, "x-dead-letter-exchange": "dlx", "x-max-priority": 5}


@scenario
def a_refused_declaration_keeps_what_was_written(stage):
    stage.log_in()
    declare(stage, "refused", TTL="soon")
    expect(stage.page.get_by_role("alert")).to_contain_text("TTL is a whole number")
    expect(stage.page.get_by_label("Name", exact=True)).to_have_value("refused")
    stage.page.get_by_label("TTL").fill("1000")
    stage.page.get_by_role("button", name="Declare queue").click()
    expect(stage.page.get_by_text("Queue 'refused' is declared.")).to_be_visible()


@scenario
def a_list_is_filtered_while_its_filter_is_typed(stage):
    for name in ["typed.one", "typed.two"]:
        stage.broker.declare(name)
    stage.log_in()
    stage.open("/queues")
    stage.page.evaluate("window.stays = true")
    stage.page.get_by_label("Filter").press_sequentially("typed.t")
    expect(row(stage.page, "typed.two")).to_be_visible()
    expect(row(stage.page, "typed.one")).to_have_count(0)
    expect(stage.page).to_have_url(re.compile(r"name=typed\.t$"))
    assert stage.page.evaluate("window.stays"), "the page was not loaded again"
    assert stage.page.evaluate("document.activeElement.id") == "filter"


@scenario
def an_address_shows_the_same_part_of_a_list_again(stage):
    for number in range(120):
        stage.broker.declare(f"many.{number:03}")
    stage.broker.publish("many.007", 2)
    stage.log_in()
    stage.open("/queues?name=many.")
    expect(stage.page.get_by_text("1–50 of 120")).to_be_visible()
    stage.page.get_by_role("link", name="Next page").click()
    expect(row(stage.page, "many.050")).to_be_visible()
    stage.page.get_by_role("columnheader", name="Ready").get_by_role("link").click()
    expect(stage.page.get_by_role("columnheader", name="Ready")).to_have_attribute("aria-sort", "descending")
    address = stage.page.url
    expect(stage.page.get_by_role("rowheader").first).to_have_text("many.007")
    stage.open("/")
    stage.page.goto(address)
    expect(stage.page.get_by_role("rowheader").first).to_have_text("many.007")
    stage.picture("queues")


@scenario
def a_queue_says_that_it_has_no_consumers(stage):
    stage.broker.declare("lonely")
    stage.broker.publish("lonely", 2)
    stage.log_in()
    stage.open(queue_path("lonely"))
    expect(stage.page.get_by_text("It does not move: no consumers")).to_be_visible()
    expect(stage.page.get_by_text(re.compile(r"2 ready, the oldest published .* ago, and no client consumes from it\."))
           ).to_be_visible()
    expect(stage.page.get_by_text("Start a consumer")).to_be_visible()


@scenario
def a_queue_says_that_its_consumers_are_out_of_credit(stage):
    stage.broker.declare("held")
    stage.broker.publish("held", 5)
    stage.client("holder").consume("held", 2, "holder-1")
    until("two are held", lambda: stage.broker.queue("held")["messages_unacknowledged"] == 2)
    stage.log_in()
    stage.open(queue_path("held"))
    expect(stage.page.get_by_text("It does not move: consumers out of credit")).to_be_visible()
    expect(stage.page.get_by_text("1 consumer holds 2 unacknowledged")).to_be_visible()
    consumer = stage.page.get_by_role("row").filter(has_text="holder-1")
    expect(consumer).to_contain_text("out of credit")
    stage.picture("queue")
    consumer.get_by_role("link").click()
    expect(stage.page.get_by_role("button", name="Close connection")).to_be_visible()
    stage.picture("connection")


@scenario
def a_queue_that_moves_shows_its_rates(stage):
    stage.broker.declare("moving")
    stage.client("reader").consume("moving", 50, "reader-1", settle=True)
    stage.client("writer").flow("moving", 200)
    stage.log_in()
    stage.open(queue_path("moving"))
    rate = stage.page.locator(".figures div", has_text=re.compile("^In")).locator("dd").first
    end = time.monotonic() + 40
    while not re.fullmatch(r"(19|20)\d/s", rate.inner_text()):
        assert time.monotonic() < end, f"the rate is told as {rate.inner_text()}"
        time.sleep(0.2)


@scenario
def figures_come_by_themselves_until_they_are_paused(stage):
    stage.broker.declare("live")
    stage.log_in()
    stage.open(queue_path("live"))
    ready = stage.page.locator(".figures div", has_text="Ready").locator("dd").first
    expect(ready).to_have_text("0")
    stage.page.get_by_text("Publish a message to this queue").click()
    stage.page.get_by_label("Payload").fill("half written")
    stage.broker.publish("live", 4)
    expect(ready).to_have_text("4", timeout=15_000)
    expect(stage.page.get_by_label("Payload")).to_have_value("half written")
    assert stage.page.evaluate("document.activeElement.name") == "payload", "the cursor stays"
    stage.page.get_by_role("button", name="Every 5 s").click()
    stage.broker.publish("live", 1)
    time.sleep(7)
    expect(ready).to_have_text("4")
    expect(stage.page.get_by_role("button", name="Paused")).to_be_visible()


@scenario
def a_message_is_published_and_looked_at_without_being_taken(stage):
    stage.log_in()
    declare(stage, "looked.at")
    stage.page.get_by_text("Publish a message to this queue").click()
    stage.page.get_by_label("Payload").fill('{"order": 7}')
    stage.page.get_by_label("Headers").fill('{"region": "eu"}')
    stage.page.get_by_role("button", name="Publish").click()
    expect(stage.page.get_by_text("The message is published and confirmed.")).to_be_visible()
    stage.broker.publish("looked.at", headers={"region": "us"}, body="other")
    stage.page.get_by_label("Selector").fill("region = 'eu'")
    stage.page.get_by_role("button", name="Browse").click()
    expect(stage.page.get_by_role("article")).to_have_count(1)
    expect(stage.page.get_by_role("article")).to_contain_text('{"order": 7}')
    stage.picture("messages")
    assert stage.broker.queue("looked.at")["messages_ready"] == 2


@scenario
def a_selector_that_is_none_is_explained(stage):
    stage.broker.declare("selected")
    stage.log_in()
    stage.open(queue_path("selected", "/messages?selector=region+is+what"))
    expect(stage.page.get_by_role("alert")).to_contain_text("selector")


@scenario
def a_purge_asks_first_and_can_be_cancelled(stage):
    stage.broker.declare("emptied")
    stage.broker.publish("emptied", 3)
    stage.log_in()
    stage.open(queue_path("emptied"))
    stage.page.get_by_role("link", name="Purge…").click()
    expect(stage.page.get_by_text("Purge drops 3 ready messages")).to_be_visible()
    stage.picture("purge")
    stage.page.get_by_role("link", name="Cancel").click()
    assert stage.broker.queue("emptied")["messages_ready"] == 3
    stage.page.get_by_role("link", name="Purge…").click()
    stage.page.get_by_role("button", name="Purge 3 ready messages").click()
    expect(stage.page.get_by_text("Purged 3 messages of queue 'emptied'.")).to_be_visible()
    assert stage.broker.queue("emptied")["messages_ready"] == 0


@scenario
def a_purge_and_a_deletion_can_be_undone(stage):
    stage.broker.declare("missed")
    stage.broker.publish("missed", 3)
    stage.log_in()
    for link, button, said in [
        ("Purge…", "Purge 3 ready messages", "Purged 3 messages of queue 'missed'. They are kept for 15 minutes"),
        ("Delete queue…", "Delete queue", "Queue 'missed' is deleted, with 3 messages. They are kept for 15 minutes"),
    ]:
        stage.open(queue_path("missed"))
        stage.page.get_by_role("link", name=link).click()
        stage.page.get_by_role("button", name=button).click()
        expect(stage.page.get_by_text(said)).to_be_visible()
        stage.open("/tasks")
        stage.picture("undo")
        stage.page.get_by_role("link", name=re.compile("^Undo task")).first.click()
        stage.page.get_by_role("button", name="Undo task").click()
        expect(stage.page.get_by_text("is being undone")).to_be_visible()
        until("they are back", lambda: stage.broker.queue("missed").get("messages_ready") == 3)


@scenario
def a_purge_may_drop_messages_at_once(stage):
    stage.broker.declare("dropped")
    stage.broker.publish("dropped", 2)
    stage.log_in()
    stage.open(queue_path("dropped", "/purge"))
    stage.page.get_by_label("Keep the messages").select_option("no, drop them at once")
    stage.page.get_by_role("button", name="Purge 2 ready messages").click()
    expect(stage.page.get_by_text("Purged 2 messages of queue 'dropped'.", exact=True)).to_be_visible()


@scenario
def messages_move_by_a_task_after_a_look_at_its_plan(stage):
    stage.broker.declare("moved.from")
    stage.broker.declare("moved.to")
    for region in ["eu", "us", "eu"]:
        stage.broker.publish("moved.from", headers={"region": region})
    stage.log_in()
    stage.open(queue_path("moved.from"))
    stage.page.get_by_role("link", name="Move or copy messages…").click()
    stage.page.get_by_label("Target queue").fill("moved.to")
    stage.page.get_by_label("Selector").fill("region = 'eu'")
    stage.page.get_by_role("button", name="Show the plan").click()
    expect(stage.page.get_by_text("would move 2 messages of queue 'moved.from' to queue 'moved.to'")).to_be_visible()
    assert stage.broker.queue("moved.to")["messages_ready"] == 0
    stage.picture("task-plan")
    stage.page.get_by_role("button", name="Move 2 messages").click()
    expect(stage.page.get_by_text(re.compile("Task [0-9a-f]+ is started."))).to_be_visible()
    until("they have moved", lambda: stage.broker.queue("moved.to")["messages_ready"] == 2)
    stage.open("/tasks")
    expect(stage.page.get_by_role("row").filter(has_text="moved.from")).to_contain_text("done")
    stage.picture("tasks")


@scenario
def a_task_that_runs_is_cancelled(stage):
    stage.broker.declare("slow.from")
    stage.broker.declare("slow.to")
    stage.broker.publish("slow.from", 50)
    stage.log_in()
    stage.open(queue_path("slow.from", "/task?kind=copy&to=slow.to&rate=1"))
    stage.page.get_by_role("button", name="Copy 50 messages").click()
    mine = stage.page.get_by_role("row").filter(has_text="slow.from")
    expect(mine).to_contain_text("running")
    mine.get_by_role("link", name=re.compile("Cancel task")).click()
    stage.page.get_by_role("button", name="Cancel task").click()
    expect(mine).to_contain_text("cancelled")


@scenario
def a_task_to_nowhere_is_refused_with_the_reason(stage):
    stage.broker.declare("lost.from")
    stage.log_in()
    stage.open(queue_path("lost.from", "/task?kind=move&to=nothing.here"))
    expect(stage.page.get_by_role("alert")).to_contain_text("no queue 'nothing.here'")
    expect(stage.page.get_by_label("Target queue")).to_have_value("nothing.here")


@scenario
def a_queue_is_deleted_after_a_question(stage):
    stage.broker.declare("deleted")
    stage.log_in()
    stage.open(queue_path("deleted"))
    stage.page.get_by_role("link", name="Delete queue").click()
    stage.page.get_by_role("button", name="Delete queue").click()
    expect(stage.page.get_by_text("Queue 'deleted' is deleted")).to_be_visible()
    stage.open(queue_path("deleted"))
    expect(stage.page.get_by_role("alert")).to_contain_text("There is no queue 'deleted'")


@scenario
def a_queue_is_bound_and_unbound(stage):
    stage.broker.declare("bound")
    stage.log_in()
    stage.open(queue_path("bound"))
    stage.page.get_by_text("Bind it to an exchange").click()
    stage.page.get_by_label("Exchange", exact=True).fill("amq.topic")
    stage.page.get_by_label("Routing key", exact=True).fill("orders.#")
    stage.page.get_by_role("button", name="Bind", exact=True).click()
    binding = stage.page.get_by_role("row").filter(has_text="orders.#")
    expect(binding).to_be_visible()
    binding.get_by_role("button", name="Unbind").click()
    expect(stage.page.get_by_text("no longer bound")).to_be_visible()
    expect(stage.page.get_by_role("row").filter(has_text="orders.#")).to_have_count(0)


# Exchanges.


@scenario
def an_exchange_is_declared_and_routes_what_is_published(stage):
    stage.broker.declare("routed")
    stage.log_in()
    stage.open("/exchanges")
    stage.page.get_by_text("Declare an exchange").click()
    stage.page.get_by_label("Name", exact=True).fill("news")
    stage.page.get_by_label("Type").select_option("topic")
    stage.page.get_by_role("button", name="Declare exchange").click()
    stage.page.get_by_text("Bind a queue or an exchange to it").click()
    stage.page.get_by_label("Name", exact=True).fill("routed")
    stage.page.get_by_label("Routing key", exact=True).first.fill("eu.*")
    stage.page.get_by_role("button", name="Bind", exact=True).click()
    expect(stage.page.get_by_role("row").filter(has_text="routed")).to_be_visible()
    stage.picture("exchange")
    stage.page.get_by_text("Publish a message").click()
    publish = stage.page.locator("form").filter(has=stage.page.get_by_role("button", name="Publish"))
    publish.get_by_label("Routing key").fill("us.new")
    publish.get_by_role("button", name="Publish").click()
    expect(stage.page.get_by_role("alert")).to_contain_text("reached no queue")
    publish.get_by_label("Routing key").fill("eu.new")
    publish.get_by_role("button", name="Publish").click()
    expect(stage.page.get_by_text("published and confirmed")).to_be_visible()
    assert stage.broker.queue("routed")["messages_ready"] == 1


@scenario
def an_exchange_is_deleted_after_a_question(stage):
    stage.broker.api("exchanges/%2F/short-lived", "PUT", {"type": "fanout"})
    stage.log_in()
    stage.open("/exchanges/%2F/short-lived")
    stage.page.get_by_role("link", name="Delete exchange").click()
    stage.page.get_by_role("button", name="Delete exchange").click()
    expect(stage.page.get_by_text("Exchange 'short-lived' is deleted.")).to_be_visible()


# Connections.


@scenario
def a_connection_is_found_by_its_name_and_closed_with_a_reason(stage):
    stage.broker.declare("closing")
    client = stage.client("closing-time")
    client.consume("closing", 1, "c")
    stage.log_in()
    stage.open("/connections")
    stage.page.get_by_label("Filter").fill("closing-time")
    stage.page.keyboard.press("Enter")
    stage.picture("connections")
    stage.page.get_by_role("rowheader").get_by_role("link").click()
    stage.page.get_by_label("Reason").fill("time to go")
    stage.page.get_by_role("button", name="Close connection").click()
    expect(stage.page.get_by_text("is closed.")).to_be_visible()
    until("the client is told", lambda: client.error is not None)
    assert "time to go" in str(client.error), client.error
    stage.page.get_by_role("link", name="Recent endings").click()
    expect(stage.page.get_by_role("heading", level=1)).to_have_text("Recent endings")
    stage.page.get_by_label("Filter").fill("time to go")
    stage.page.keyboard.press("Enter")
    expect(stage.page.get_by_role("row").filter(has_text="time to go").first).to_contain_text("guest in /")
    stage.picture("recent-endings")


# What clients leave behind, and shovels.


@scenario
def a_subscription_is_listed_with_its_client_and_deleted(stage):
    stage.broker.subscribe("reader-7", "daily", "news.eu")
    stage.log_in()
    stage.open("/subscriptions")
    expect(stage.page.get_by_role("row").filter(has_text="reader-7")).to_contain_text("daily")
    stage.picture("subscriptions")
    stage.page.get_by_role("row").filter(has_text="reader-7").get_by_role("link", name="Delete").click()
    expect(stage.page.get_by_text("They can't be brought back.")).to_be_visible()
    stage.page.get_by_role("button", name="Delete queue").click()
    until("it is gone", lambda: not [
        queue for queue in stage.broker.api("queues")
        if (queue.get("subscription") or {}).get("client") == "reader-7"
    ])


@scenario
def a_retained_message_is_listed_and_removed_after_a_question(stage):
    stage.broker.publish_to("amq.topic", "house.kitchen", "21", {"x-retain": True})
    stage.log_in()
    stage.open("/retained")
    kept = stage.page.get_by_role("row").filter(has_text="house.kitchen")
    expect(kept).to_contain_text("2 B")
    kept.get_by_role("link", name="Remove").click()
    stage.page.get_by_role("link", name="Cancel").click()
    kept.get_by_role("link", name="Remove").click()
    stage.page.get_by_role("button", name="Remove").click()
    expect(stage.page.get_by_role("row").filter(has_text="house.kitchen")).to_have_count(0)


@scenario
def a_shovel_is_set_moves_what_there_is_and_is_cleared(stage):
    for name in ["outbox", "inbox"]:
        stage.broker.declare(name)
    stage.broker.publish("outbox", 3)
    stage.log_in()
    stage.open("/shovels")
    stage.page.get_by_text("Set a shovel").click()
    stage.page.get_by_label("Name", exact=True).fill("bring")
    definition = '{"src-uri": "amqp://", "src-queue": "outbox", "dest-uri": "amqp://", "dest-queue"}'
    stage.page.get_by_label("Definition").fill(definition)
    stage.page.get_by_role("button", name="Set shovel").click()
    expect(stage.page.get_by_role("alert")).to_contain_text("Definition")
    expect(stage.page.get_by_label("Definition")).to_have_value(definition)
    stage.page.get_by_label("Definition").fill(definition.replace('"dest-queue"', '"dest-queue": "inbox"'))
    stage.page.get_by_role("button", name="Set shovel").click()
    expect(stage.page.get_by_text("Shovel 'bring' is set.")).to_be_visible()
    until("all have moved", lambda: stage.broker.queue("inbox").get("messages_ready") == 3)
    stage.open("/shovels")
    expect(stage.page.get_by_role("row").filter(has_text="bring")).to_contain_text("running")
    stage.picture("shovels")
    stage.page.get_by_role("link", name="Clear shovel bring").click()
    stage.page.get_by_role("button", name="Clear shovel").click()
    expect(stage.page.get_by_text("no shovels")).to_be_visible()


# Users, virtual hosts, policies.


@scenario
def a_user_is_created_and_sees_its_virtual_host_alone(stage):
    stage.broker.declare("not.for.ada")
    stage.log_in()
    stage.open("/vhosts")
    stage.page.get_by_text("Create a virtual host").click()
    stage.page.get_by_label("Name", exact=True).fill("shop")
    stage.page.get_by_role("button", name="Create virtual host").click()
    expect(stage.page.get_by_text("Virtual host 'shop' is created")).to_be_visible()
    stage.open("/users")
    stage.page.get_by_text("Create a user").click()
    stage.page.get_by_label("Name", exact=True).fill("ada")
    stage.page.get_by_label("Password").fill("secret")
    stage.page.get_by_label("Tags").fill("management")
    stage.page.get_by_role("button", name="Create user").click()
    expect(stage.page.get_by_text("no permissions: it can't enter any virtual host")).to_be_visible()
    stage.page.get_by_text("Set permissions in a virtual host").click()
    stage.page.get_by_label("Virtual host").select_option("shop")
    for label in ["Configure", "Write", "Read"]:
        stage.page.get_by_label(label, exact=True).fill("^ada")
    stage.page.get_by_role("button", name="Set permissions").click()
    expect(stage.page.get_by_role("row").filter(has_text="shop")).to_contain_text("^ada")
    stage.picture("user")

    ada = stage.log_in("ada", "secret", stage.visitor())
    stage.open("/queues", ada)
    expect(ada.get_by_text("not.for.ada")).to_have_count(0)
    stage.open(queue_path("not.for.ada"), ada)
    expect(ada.get_by_role("alert")).to_contain_text("There is no queue")
    stage.open("/queues", ada)
    ada.get_by_text("Declare a queue").click()
    ada.get_by_label("Name", exact=True).fill("others")
    ada.get_by_role("button", name="Declare queue").click()
    expect(ada.get_by_role("alert")).to_contain_text("refused")
    ada.get_by_label("Name", exact=True).fill("ada.own")
    ada.get_by_role("button", name="Declare queue").click()
    expect(ada.get_by_text("Queue 'ada.own' is declared.")).to_be_visible()


@scenario
def a_new_password_ends_the_sessions_of_the_old_one(stage):
    stage.broker.api("users/eve", "PUT", {"password": "old", "tags": "monitoring"})
    eve = stage.log_in("eve", "old", stage.visitor())
    expect(eve.get_by_role("heading", level=1)).to_have_text("Overview")
    stage.log_in()
    stage.open("/users/eve")
    stage.page.get_by_text("Change the password").click()
    stage.page.get_by_label("Password").fill("new")
    stage.page.get_by_role("button", name="Change password").click()
    expect(stage.page.get_by_text("The password of 'eve' is changed.")).to_be_visible()
    stage.open("/queues", eve)
    expect(eve.get_by_role("button", name="Log in")).to_be_visible()


@scenario
def a_user_is_deleted_after_a_question(stage):
    stage.broker.api("users/gone", "PUT", {"password": "p", "tags": ""})
    stage.log_in()
    stage.open("/users/gone")
    stage.page.get_by_role("link", name="Delete user").click()
    stage.page.get_by_role("button", name="Delete user").click()
    expect(stage.page.get_by_text("User 'gone' is deleted.")).to_be_visible()
    expect(stage.page.get_by_role("link", name="gone", exact=True)).to_have_count(0)


@scenario
def a_virtual_host_is_deleted_after_a_question(stage):
    stage.broker.api("vhosts/over", "PUT")
    stage.log_in()
    stage.open("/vhosts")
    stage.picture("virtual-hosts")
    row(stage.page, "over").get_by_role("link", name="Delete virtual host over").click()
    expect(stage.page.get_by_text("Virtual host 'over' goes with 0 queues")).to_be_visible()
    stage.page.get_by_role("button", name="Delete virtual host").click()
    expect(stage.page.get_by_text("Virtual host 'over' is deleted.")).to_be_visible()


@scenario
def a_policy_is_added_shows_on_its_queues_and_is_deleted(stage):
    stage.broker.declare("ruled.one")
    stage.log_in()
    stage.open("/policies")
    stage.page.get_by_text("Add a policy").click()
    stage.page.get_by_label("Name", exact=True).fill("short")
    stage.page.get_by_label("Pattern").fill("^ruled")
    stage.page.get_by_label("Apply to").select_option("queues")
    stage.page.get_by_label("Definition").fill('{"max-length": 10}')
    stage.page.get_by_role("button", name="Add policy").click()
    expect(stage.page.get_by_role("row").filter(has_text="^ruled")).to_contain_text("max-length")
    stage.picture("policies")
    stage.open(queue_path("ruled.one"))
    expect(stage.page.get_by_text("short", exact=True)).to_be_visible()
    stage.open("/policies")
    stage.page.get_by_role("link", name="Delete policy short").click()
    stage.page.get_by_role("button", name="Delete policy").click()
    expect(stage.page.get_by_text("Policy 'short' is deleted.")).to_be_visible()


@scenario
def a_policy_that_is_none_is_explained_and_kept(stage):
    stage.log_in()
    stage.open("/policies")
    stage.page.get_by_text("Add a policy").click()
    stage.page.get_by_label("Name", exact=True).fill("wrong")
    stage.page.get_by_label("Pattern").fill("(")
    stage.page.get_by_label("Definition").fill('{"max-length": 10}')
    stage.page.get_by_role("button", name="Add policy").click()
    expect(stage.page.get_by_role("alert")).to_contain_text("(")
    expect(stage.page.get_by_label("Definition")).to_have_value('{"max-length": 10}')


# Explanations.


@scenario
def a_refusal_is_explained_with_the_grant_that_would_help(stage):
    stage.broker.api("users/narrow", "PUT", {"password": "p", "tags": ""})
    stage.broker.api("permissions/%2F/narrow", "PUT", {"configure": "", "write": "^shop", "read": "^shop"})
    stage.log_in()
    stage.open("/users/narrow")
    stage.page.get_by_role("link", name="Explain access…").click()
    stage.page.get_by_label("Name", exact=True).fill("shop.orders")
    stage.page.get_by_role("button", name="Explain access").click()
    expect(stage.page.get_by_text("User 'narrow' may write and read queue 'shop.orders'")).to_be_visible()
    declaring = stage.page.get_by_role("row").filter(has_text="configure: declare")
    expect(declaring).to_contain_text("refused")
    expect(declaring).to_contain_text("the pattern is empty")
    expect(stage.page.get_by_text("hermod permissions set narrow")).to_be_visible()
    stage.picture("explain-access")


@scenario
def a_routing_key_is_tried_without_publishing(stage):
    stage.broker.declare("tried")
    stage.broker.api("exchanges/%2F/tries", "PUT", {"type": "topic"})
    stage.broker.api("bindings/%2F/e/tries/q/tried", "POST", {"routing_key": "eu.#"})
    stage.log_in()
    stage.open("/exchanges/%2F/tries")
    stage.page.get_by_role("link", name="Try a routing key…").click()
    stage.page.get_by_label("Routing key").fill("eu.new")
    stage.page.get_by_role("button", name="Try routing key").click()
    expect(stage.page.get_by_text("It reaches 1 queue: tried.")).to_be_visible()
    expect(stage.page.get_by_role("row").filter(has_text="bound by 'eu.#'")).to_contain_text("to queue 'tried'")
    stage.picture("try-routing-key")
    stage.page.get_by_label("Routing key").fill("us.new")
    stage.page.get_by_role("button", name="Try routing key").click()
    expect(stage.page.get_by_text("It is unroutable")).to_be_visible()
    assert stage.broker.queue("tried")["messages_ready"] == 0


@scenario
def a_policy_is_previewed_before_it_is_added(stage):
    stage.broker.declare("seen.before")
    stage.broker.publish("seen.before", 3)
    stage.log_in()
    stage.open("/policies")
    stage.page.get_by_text("Add a policy").click()
    stage.page.get_by_label("Name", exact=True).fill("shorter")
    stage.page.get_by_label("Pattern").fill("^seen")
    stage.page.get_by_label("Apply to").select_option("queues")
    stage.page.get_by_label("Definition").fill('{"max-length": 1}')
    stage.page.get_by_role("button", name="Preview").click()
    expect(stage.page.get_by_text("It changes 1 queue. 2 messages are dropped at once.")).to_be_visible()
    expect(stage.page.get_by_role("row").filter(has_text="seen.before")).to_contain_text("x-max-length: none → 1")
    stage.picture("policy-preview")
    assert stage.broker.queue("seen.before")["messages_ready"] == 3
    stage.page.get_by_role("button", name="Add policy").click()
    expect(stage.page.get_by_text("Policy 'shorter' is set.")).to_be_visible()
    assert stage.broker.queue("seen.before")["messages_ready"] == 1
    stage.open(queue_path("seen.before", "/policies"))
    expect(stage.page.get_by_role("row").filter(has_text="policy 'shorter'")).to_contain_text("applies")


@scenario
def the_one_limit_that_is_close_comes_first(stage):
    stage.broker.api("vhosts/small", "PUT")
    stage.broker.api("vhost-limits/small/max-queues", "PUT", {"value": 1})
    stage.broker.api("permissions/small/guest", "PUT", {"configure": ".*", "write": ".*", "read": ".*"})
    stage.broker.api("queues/small/only", "PUT", {"durable": True})
    stage.log_in()
    stage.open("/limits")
    first = stage.page.get_by_role("row").nth(1)
    expect(first).to_contain_text("Queues in virtual host 'small'")
    expect(first).to_contain_text("100 %")
    stage.picture("limits")


@scenario
def a_session_shows_what_it_holds(stage):
    stage.broker.declare("sessions.of")
    stage.broker.publish("sessions.of", 2)
    stage.client("session-holder").consume("sessions.of", 2, "holder")
    until("two are held", lambda: stage.broker.queue("sessions.of")["messages_unacknowledged"] == 2)
    stage.log_in()
    stage.open("/sessions?sort=unacknowledged&reversed=true")
    expect(stage.page.get_by_role("row").nth(1)).to_contain_text("2")
    stage.picture("sessions")


@scenario
def the_node_tells_its_settings_and_where_they_came_from(stage):
    stage.log_in()
    stage.open("/node")
    setting = stage.page.get_by_role("row").filter(has_text="ports.http").first
    expect(setting).to_contain_text("--ports-http")
    expect(stage.page.get_by_text("password", exact=True)).to_have_count(0)
    stage.picture("node")


# What others may not do.


@scenario
def a_page_may_be_framed_kept_and_sniffed_by_none(stage):
    for path in ["/login", "/queues", "/api/overview"]:
        answer = stage.page.request.get(stage.broker.address + path, max_redirects=0)
        headers = answer.headers
        assert "no-store" in headers["cache-control"], (path, headers)
        assert headers["x-content-type-options"] == "nosniff", (path, headers)
        assert "frame-ancestors 'none'" in headers.get("content-security-policy", "frame-ancestors 'none'"), path
    policy = stage.page.request.get(stage.broker.address + "/login").headers["content-security-policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy


@scenario
def another_name_for_this_machine_leads_to_nothing(stage):
    """DNS rebinding: a page of evil.example whose name suddenly means this machine."""
    stage.log_in()
    for path in ["/", "/queues", "/api/overview", "/login"]:
        answer = stage.page.request.get(stage.broker.address + path, headers={"Host": "evil.example"}, max_redirects=0)
        assert answer.status == 421, (path, answer.status)


@scenario
def a_form_of_another_site_is_refused_whatever_it_says(stage):
    stage.broker.declare("forged")
    stage.log_in()
    for headers in [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                    {"Sec-Fetch-Site": "same-site"}]:
        for path in [queue_path("forged", "/delete"), "/users", "/policies", "/logout"]:
            answer = stage.page.request.post(stage.broker.address + path, headers=headers, form={"name": "x"},
                                             max_redirects=0)
            assert answer.status == 403, (headers, path, answer.status)
    assert stage.broker.queue("forged")["name"] == "forged"


@scenario
def a_token_that_was_there_before_the_log_in_is_worth_nothing(stage):
    """Session fixation: an attacker's token in the victim's browser is not the session's afterwards."""
    stage.page.context.add_cookies([{"name": "hermod", "value": "0" * 64, "url": stage.broker.address}])
    stage.log_in()
    token = [one["value"] for one in stage.page.context.cookies() if one["name"] == "hermod"][0]
    assert token != "0" * 64
    other = stage.visitor()
    other.context.add_cookies([{"name": "hermod", "value": "0" * 64, "url": stage.broker.address}])
    stage.open("/queues", other)
    expect(other.get_by_role("button", name="Log in")).to_be_visible()


@scenario
def objects_of_other_vhosts_are_as_if_they_were_not_there(stage):
    stage.broker.api("vhosts/elsewhere", "PUT")
    stage.broker.api("permissions/elsewhere/guest", "PUT", {"configure": ".*", "write": ".*", "read": ".*"})
    stage.broker.api("queues/elsewhere/treasure", "PUT", {"durable": True})
    stage.broker.api("users/tenant", "PUT", {"password": "p", "tags": "management"})
    stage.broker.api("permissions/%2F/tenant", "PUT", {"configure": ".*", "write": ".*", "read": ".*"})
    page = stage.log_in("tenant", "p", stage.visitor())
    for path in ["/queues/elsewhere/treasure", "/queues/elsewhere/treasure/policies", "/queues/elsewhere/treasure/messages",
                 "/exchanges/elsewhere/amq.topic", "/exchanges/elsewhere/amq.topic/route", "/queues/none/treasure"]:
        stage.open(path, page)
        expect(page.get_by_role("alert")).to_contain_text("There is no")
    for path in ["/", "/queues", "/exchanges", "/policies", "/vhosts", "/sessions", "/consumers", "/limits", "/node"]:
        stage.open(path, page)
        assert "treasure" not in page.content() and "elsewhere" not in page.content(), path


@scenario
def what_a_tag_does_not_allow_is_refused(stage):
    stage.broker.api("users/onlooker", "PUT", {"password": "p", "tags": "management"})
    stage.broker.api("permissions/%2F/onlooker", "PUT", {"configure": "", "write": "", "read": ""})
    stage.broker.declare("watched")
    page = stage.log_in("onlooker", "p", stage.visitor())
    for path in ["/users/guest", "/users/onlooker/explain"]:
        stage.open(path, page)
        expect(page.get_by_role("alert")).to_be_visible()
    for path, form in [("/users", {"name": "new", "password": "p"}), ("/vhosts", {"name": "new"}),
                       ("/policies", {"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "all",
                                      "definition": '{"max-length": 1}'}),
                       (queue_path("watched", "/purge"), {}), (queue_path("watched", "/delete"), {}),
                       ("/queues", {"vhost": "/", "name": "made", "type": "classic", "durable": "true"})]:
        answer = page.request.post(stage.broker.address + path, form=form, headers={"Origin": stage.broker.address},
                                   max_redirects=0)
        assert answer.status in (400, 401, 403), (path, answer.status)
    assert not [one for one in stage.broker.api("queues") if one["name"] == "made"]
    assert stage.broker.queue("watched")["name"] == "watched"


@scenario
def guesses_at_a_password_tell_nothing_and_hinder_no_other(stage):
    stage.broker.api("users/guessed", "PUT", {"password": "right", "tags": "management"})
    guess = lambda password: stage.page.request.post(
        stage.broker.address + "/login", form={"user": "guessed", "password": password},
        headers={"Origin": stage.broker.address}, max_redirects=0).status
    assert guess("right") == 303
    assert all(guess(str(number)) != 303 for number in range(25))
    stranger = lambda: stage.page.request.post(
        stage.broker.address + "/login", form={"user": "nobody", "password": "right"},
        headers={"Origin": stage.broker.address}, max_redirects=0).status
    assert stranger() == guess("wrong"), "a user that is not there is answered like one that is"
    page = stage.log_in(page=stage.visitor())
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@scenario
def what_a_client_chose_is_text_on_every_page(stage):
    stage.broker.declare(EVIL)
    stage.broker.publish(EVIL, body=EVIL, headers={EVIL: EVIL})
    stage.broker.api("vhosts/marked", "PUT", {"description": EVIL, "tags": [EVIL]})
    stage.client(EVIL)
    stage.log_in()
    for path in ["/", "/connections", "/queues", "/exchanges", "/policies", "/users", "/vhosts", "/sessions",
                 "/consumers", "/limits", "/node"]:
        stage.open(path)
        expect(stage.page.locator("img[src=x]")).to_have_count(0)
    stage.open("/queues?name=alert")
    stage.page.get_by_role("rowheader").get_by_role("link").click()
    expect(stage.page.get_by_role("heading", level=1)).to_have_text(EVIL)
    stage.page.get_by_role("button", name="Browse").click()
    expect(stage.page.get_by_role("article")).to_contain_text("<script>alert(1)</script>")


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Another site's page, which sends a form to the console and shows it in a frame."""

    def do_GET(self):
        page = f"""<!doctype html><title>Elsewhere</title><iframe src="{self.server.target}/queues"></iframe>
            <form id="form" method="post" action="{self.server.target}/queues/%2F/wanted/delete"></form>
            <button form="form">Win</button>"""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_):
        pass


@scenario
def another_sites_page_can_neither_act_nor_show_the_console(stage):
    stage.broker.declare("wanted")
    stage.log_in()
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    site.target = stage.broker.address
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        stage.page.goto(f"http://127.0.0.1:{site.server_port}/")
        stage.page.wait_for_timeout(300)
        assert not any("Queues" in frame.content() for frame in stage.page.frames[1:]), "it is shown in a frame"
        stage.page.get_by_role("button", name="Win").click()
        stage.page.wait_for_load_state()
        assert stage.broker.queue("wanted")["name"] == "wanted"
    finally:
        site.shutdown()
    # That the browser refuses the frame is what it tells of.
    stage.complaints = [text for text in stage.complaints if "frame" not in text.lower()]


@scenario
def the_history_of_a_queue_has_an_hour_and_a_day(stage):
    stage.broker.declare("remembered")
    stage.log_in()
    stage.open(queue_path("remembered"))
    stage.page.get_by_role("link", name="History of 24 hours").click()
    for heading in ["Last hour", "Last 24 hours"]:
        expect(stage.page.get_by_role("heading", name=heading)).to_be_visible()
    stage.broker.publish("remembered", 7)
    chart = stage.page.get_by_role("img", name=re.compile("^Messages in the queue in the last"))
    expect(chart.first).to_be_visible(timeout=30_000)
    stage.page.get_by_text("Messages in the queue as a table").first.click()
    expect(stage.page.get_by_role("cell", name="7", exact=True).first).to_be_visible(timeout=15_000)
    stage.open("/")
    stage.page.get_by_role("link", name="History of 24 hours").click()
    expect(stage.page.get_by_role("heading", name="Comings and goings")).to_be_visible()
    stage.picture("history")


# The log, and what this is.


@scenario
def the_audit_page_says_who_did_what_and_what_was_refused(stage):
    stage.broker.declare("audited")
    stage.broker.api("queues/%2F/audited/contents", "DELETE")
    stage.log_in()
    stage.open("/audit?name=audited")
    purge = stage.page.get_by_role("row").filter(has_text="purge_queue")
    for text in ["guest", "http", "audited in /", "done"]:
        expect(purge.first).to_contain_text(text)
    stage.picture("audit")
    stage.page.get_by_label("Outcome").select_option("refused")
    stage.page.get_by_role("button", name="Filter").click()
    expect(stage.page.get_by_text("No entry of the last ones is such.")).to_be_visible()
    expect(stage.page.get_by_label("Filter")).to_have_value("audited")


@scenario
def the_log_is_filtered_by_level_and_text(stage):
    # The log keeps the last lines only, so the line to look for is one of these.
    stage.broker.api("vhosts/told", "PUT", {})
    stage.log_in()
    stage.open("/log?name=told")
    expect(stage.page.get_by_text("administrative change").first).to_be_visible()
    stage.picture("log")
    stage.page.get_by_label("Level").select_option("error")
    stage.page.get_by_role("button", name="Filter").click()
    expect(stage.page.get_by_text("administrative change")).to_have_count(0)
    stage.broker.api("vhosts/told", "DELETE")


@scenario
def the_log_is_for_administrators(stage):
    stage.broker.api("users/watcher", "PUT", {"password": "watcher", "tags": "monitoring"})
    stage.log_in("watcher", "watcher")
    for path in ["/log", "/audit"]:
        stage.open(path)
        expect(stage.page.get_by_text("is shown to administrators")).to_be_visible()
        expect(stage.page.get_by_role("table")).to_have_count(0)


@scenario
def about_names_versions_limits_and_licences(stage):
    stage.log_in()
    stage.open("/about")
    expect(stage.page.get_by_text("No cluster: one node serves")).to_be_visible()
    expect(stage.page.get_by_role("rowheader", name="MIT OR Apache-2.0", exact=True)).to_be_visible()
    stage.page.get_by_text("All packages").click()
    expect(stage.page.get_by_role("rowheader", name="tokio", exact=True)).to_be_visible()
    stage.picture("about")


# Without a script, by keyboard, for everybody.


@scenario
def everything_works_without_javascript(stage):
    page = stage.log_in(page=stage.visitor(script=False))
    stage.broker.declare("plain")
    stage.broker.publish("plain", 1)
    stage.open("/queues", page)
    page.get_by_label("Filter").fill("plain")
    page.get_by_role("button", name="Filter").click()
    row(page, "plain").get_by_role("link").click()
    page.get_by_text("Publish a message to this queue").click()
    page.get_by_label("Payload").fill("by hand")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("published and confirmed")).to_be_visible()
    page.get_by_role("button", name="Browse").click()
    expect(page.get_by_role("article")).to_have_count(2)
    stage.open(queue_path("plain"), page)
    page.get_by_role("link", name="Purge…").click()
    page.get_by_role("button", name="Purge 2 ready messages").click()
    expect(page.get_by_text("Purged 2 messages")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


@scenario
def the_keyboard_reaches_everything(stage):
    stage.log_in()
    stage.open("/queues")
    stage.page.keyboard.press("Tab")
    assert stage.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    stage.page.keyboard.press("Enter")
    expect(stage.page).to_have_url(re.compile("#main$"))
    stage.page.keyboard.press("/")
    assert stage.page.evaluate("document.activeElement.id") == "filter"
    stage.page.keyboard.type("a/b")
    expect(stage.page.get_by_label("Filter")).to_have_value("a/b")


PAGES = {
    "log_in": "/login",
    "overview": "/",
    "connections": "/connections",
    "queues": "/queues",
    "queue": queue_path("accessible"),
    "messages": queue_path("accessible", "/messages"),
    "purge": queue_path("accessible", "/purge"),
    "task": queue_path("accessible", "/task"),
    "tasks": "/tasks",
    "history": "/history",
    "queue_history": queue_path("accessible", "/history"),
    "exchanges": "/exchanges",
    "exchange": "/exchanges/%2F/amq.topic",
    "policies": "/policies",
    "users": "/users",
    "user": "/users/guest",
    "virtual_hosts": "/vhosts",
    "sessions": "/sessions",
    "consumers": "/consumers",
    "endings": "/endings",
    "subscriptions": "/subscriptions",
    "retained": "/retained",
    "wills": "/wills",
    "shovels": "/shovels",
    "limits": "/limits",
    "log": "/log",
    "audit": "/audit",
    "node": "/node",
    "about": "/about",
    "explain_access": "/users/guest/explain?vhost=%2F&kind=queue&name=accessible",
    "try_routing_key": "/exchanges/%2F/amq.topic/route?routing_key=a.b",
    "queue_policies": queue_path("accessible", "/policies"),
    "policy_preview": "/policies/preview?vhost=%2F&name=p&pattern=accessible&apply-to=queues&definition=%7B%22max-length%22%3A1%7D",
    "nothing": "/queues/%2F/nothing",
}


def accessible(stage, path):
    """No violation of WCAG 2.2 AA and nothing wider than its window, light and dark, wide and narrow."""
    stage.broker.declare("accessible")
    stage.broker.publish("accessible", 2, headers={"region": "eu"})
    stage.client("reader").consume("accessible", 1, "reader-1")
    until("one is held", lambda: stage.broker.queue("accessible")["messages_unacknowledged"] == 1)
    for scheme in ["light", "dark"]:
        for width in [320, 1280]:
            page = stage.log_in(page=stage.visitor(width, scheme))
            stage.open(path, page)
            page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
            found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]})
            assert found.violations_count == 0, f"{scheme} {width}: {found.generate_report()}"
            wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, f"{scheme} {width}: {wider} pixels too wide"
            if width == 320 or scheme == "dark":
                stage.picture(f"{stage.name.removesuffix('_is_accessible')}-{scheme}-{width}", page)


for _name, _path in PAGES.items():
    globals()[f"{_name}_is_accessible"] = scenario(functools.partial(accessible, path=_path))


@scenario
def a_first_view_is_small(stage):
    answers = []
    stage.page.on("response", lambda answer: answers.append(answer))
    stage.log_in()
    stage.page.wait_for_load_state("networkidle")
    answers.clear()
    stage.open("/queues")
    stage.page.wait_for_load_state("networkidle")
    bodies = {answer.url: answer.body() for answer in answers}
    assert len(bodies) <= 8, f"{len(bodies)} requests"
    assert sum(map(len, bodies.values())) <= 100_000, {url: len(body) for url, body in bodies.items()}
    scripts = [body for url, body in bodies.items() if ".js" in url]
    assert sum(len(gzip.compress(body)) for body in scripts) <= 45_000
