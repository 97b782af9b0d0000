# Bunny, the client that Ruby's job runners are built on: work queues, publish and subscribe, topics, request and reply,
# confirms, returns, retries with dead letters, each a function that checks what it gets.

require "bunny"
require "timeout"

WAIT = 20 # seconds for anything that must arrive
STORED = "interop.bunny.stored".freeze

def expect(found, expected, what)
  raise "#{what}: expected #{expected.inspect}, found #{found.inspect}" unless found == expected
end

def take(queue, count)
  taken = []
  Timeout.timeout(WAIT) do
    while taken.size < count
      _, _, body = queue.pop
      body ? taken << body : sleep(0.01)
    end
  end
  taken
end

# A worker with a prefetch of one gets one task, and the next after its acknowledgement.
def work_queue(connection)
  channel = connection.create_channel
  channel.prefetch(1)
  queue = channel.queue("", exclusive: true)
  10.times { |number| queue.publish("task #{number}") }
  arrived = Queue.new
  queue.subscribe(manual_ack: true) { |delivery, _, body| arrived << [delivery, body] }
  10.times do |number|
    delivery, body = Timeout.timeout(WAIT) { arrived.pop }
    expect(body, "task #{number}", "the next task")
    sleep(0.02)
    expect(arrived.size, 0, "tasks ahead of the acknowledgement")
    channel.ack(delivery.delivery_tag)
  end
end

def publish_subscribe(connection)
  channel = connection.create_channel
  exchange = channel.fanout("interop.bunny.news", auto_delete: true)
  queues = 2.times.map { channel.queue("", exclusive: true).bind(exchange) }
  exchange.publish("to all")
  queues.each { |queue| expect(take(queue, 1), ["to all"], "the news") }
end

def topics(connection)
  channel = connection.create_channel
  exchange = channel.topic("interop.bunny.topics", auto_delete: true)
  queue = channel.queue("", exclusive: true)
  ["*.error", "billing.#"].each { |pattern| queue.bind(exchange, routing_key: pattern) }
  ["billing.error", "shop.info", "shop.error", "billing.a.b"].each { |key| exchange.publish(key, routing_key: key) }
  expect(take(queue, 3), ["billing.error", "shop.error", "billing.a.b"], "what the patterns match")
  expect(queue.pop.last, nil, "more than that")
end

def request_and_reply(connection)
  server = connection.create_channel
  requests = server.queue("", exclusive: true)
  requests.subscribe do |_, asked, body|
    answer = (body.to_i**2).to_s
    server.default_exchange.publish(answer, routing_key: asked.reply_to, correlation_id: asked.correlation_id)
  end
  client = connection.create_channel
  replies = Queue.new
  client.basic_consume("amq.rabbitmq.reply-to", "", true) { |_, said, body| replies << [said.correlation_id, body] }
  question = { routing_key: requests.name, reply_to: "amq.rabbitmq.reply-to", correlation_id: "n7" }
  client.default_exchange.publish("7", **question)
  expect(Timeout.timeout(WAIT) { replies.pop }, %w[n7 49], "the reply")
end

def confirms_and_returns(connection)
  channel = connection.create_channel
  channel.confirm_select
  returned = Queue.new
  exchange = channel.default_exchange
  exchange.on_return { |why, _, body| returned << [why.reply_code, body] }
  exchange.publish("lost", routing_key: "interop.bunny.nowhere", mandatory: true)
  expect(channel.wait_for_confirms, true, "all confirmed")
  expect(Timeout.timeout(WAIT) { returned.pop }, [312, "lost"], "the return")
end

# A rejected job is a dead letter in another queue, with its history.
def dead_letters(connection)
  channel = connection.create_channel
  dead = channel.queue("", exclusive: true)
  arguments = { "x-dead-letter-exchange" => "", "x-dead-letter-routing-key" => dead.name }
  jobs = channel.queue("interop.bunny.jobs", exclusive: true, arguments: arguments)
  jobs.publish("broken")
  jobs.subscribe(manual_ack: true) { |delivery, _, _| channel.reject(delivery.delivery_tag, false) }
  letter = Timeout.timeout(WAIT) do
    loop do
      found = dead.pop
      break found if found.last

      sleep(0.01)
    end
  end
  death = letter[1].headers["x-death"].first
  expect([letter.last, death["queue"], death["reason"]], ["broken", jobs.name, "rejected"], "the dead letter")
end

# Another declaration of a queue that exists closes the channel with the name of the argument.
def refusals(connection)
  name = "interop.bunny.refused"
  connection.create_channel.queue(name, exclusive: true)
  begin
    connection.create_channel.queue(name, exclusive: true, arguments: { "x-max-length" => 1 })
    raise "the second declaration was taken"
  rescue Bunny::PreconditionFailed => error
    expect(error.message.include?("x-max-length"), true, "the argument in #{error.message}")
  end
end

def store(connection)
  channel = connection.create_channel
  channel.confirm_select
  queue = channel.queue(STORED, durable: true)
  10.times { |number| queue.publish("message #{number}", persistent: true) }
  expect(channel.wait_for_confirms, true, "all confirmed")
end

def fetch(connection)
  queue = connection.create_channel.queue(STORED, durable: true)
  10.times do |number|
    delivery, _, body = queue.pop
    expect([body, delivery&.redelivered], ["message #{number}", false], "what was stored")
  end
  queue.delete
end

PHASES = {
  "patterns" => %i[
    work_queue publish_subscribe topics request_and_reply confirms_and_returns dead_letters refusals
  ],
  "extensions" => [], "store" => %i[store], "fetch" => %i[fetch]
}.freeze

PHASES.fetch(ARGV.fetch(0)).each do |step|
  connection = Bunny.new(ENV.fetch("AMQP_URL"), logger: Logger.new(File::NULL))
  connection.start
  send(step, connection)
  connection.close
  puts "ok #{step}"
  $stdout.flush
end
