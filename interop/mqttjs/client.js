// What MQTT clients do, with MQTT.js in MQTT 3.1.1 and 5.0, each as a function that asserts what it gets.
import assert from 'node:assert/strict'
import mqtt from 'mqtt'

const { MQTT_HOST, MQTT_PORT, WEB_MQTT_PORT } = process.env
const PLAIN = `mqtt://${MQTT_HOST}:${MQTT_PORT}`
const WAIT = 10_000 // milliseconds for anything that must arrive
const OLD = { protocolVersion: 4 }
const NEW = { protocolVersion: 5 }

class Peer {
  static async open (clientId, version, more = {}, url = PLAIN) {
    const peer = new Peer()
    peer.got = []
    peer.waiting = []
    peer.client = mqtt.connect(url, { clientId, username: 'guest', password: 'guest', reconnectPeriod: 0, ...version, ...more })
    peer.client.on('message', (topic, payload, packet) => {
      peer.got.push({ topic, payload: payload.toString(), packet })
      peer.waiting.splice(0).forEach(wake => wake())
    })
    peer.connack = await new Promise((resolve, reject) => {
      peer.client.once('connect', resolve)
      peer.client.once('error', reject)
    })
    return peer
  }

  async take (count) {
    const end = Date.now() + WAIT
    while (this.got.length < count && Date.now() < end) {
      await Promise.race([new Promise(wake => this.waiting.push(wake)), new Promise(wake => setTimeout(wake, 100))])
    }
    return this.got.splice(0, count)
  }

  close () { return this.client.endAsync() }
}

async function bothVersions () {
  for (const version of [OLD, NEW]) {
    const peer = await Peer.open(`js-${version.protocolVersion}`, version)
    await peer.client.subscribeAsync('js/+', { qos: 1 })
    await peer.client.publishAsync('js/a', 'one', { qos: 1 })
    await peer.client.publishAsync('js/b', 'two', { qos: 0 })
    const got = await peer.take(2)
    assert.deepEqual(got.map(one => [one.topic, one.payload, one.packet.qos]), [['js/a', 'one', 1], ['js/b', 'two', 0]])
    await peer.client.unsubscribeAsync('js/+')
    await peer.close()
  }
}

async function propertiesAndAliases () {
  const peer = await Peer.open('js-properties', NEW, { properties: { topicAliasMaximum: 5 } })
  await peer.client.subscribeAsync('js/properties', { qos: 1, properties: { subscriptionIdentifier: 7 } })
  const properties = { contentType: 'text/plain', correlationData: Buffer.from([0, 1]), userProperties: { a: ['1', '2'] } }
  for (const body of ['first', 'second']) await peer.client.publishAsync('js/properties', body, { qos: 1, properties })
  const got = await peer.take(2)
  assert.deepEqual(got.map(one => one.payload), ['first', 'second'])
  assert.deepEqual(got.map(one => one.topic), ['js/properties', 'js/properties'])
  assert.equal(got[1].packet.properties.contentType, 'text/plain')
  assert.deepEqual([...got[1].packet.properties.userProperties.a], ['1', '2'])
  assert.equal(got[1].packet.properties.subscriptionIdentifier, 7)
  await peer.close()
}

async function retainedAndWill () {
  const watcher = await Peer.open('js-watcher', OLD)
  await watcher.client.subscribeAsync('js/will', { qos: 1 })
  const leaver = await Peer.open('js-leaver', NEW, { will: { topic: 'js/will', payload: 'gone', qos: 1, retain: true } })
  leaver.client.stream.destroy()
  assert.deepEqual((await watcher.take(1)).map(one => one.payload), ['gone'])
  const late = await Peer.open('js-late', NEW)
  await late.client.subscribeAsync('js/will', { qos: 1 })
  const [kept] = await late.take(1)
  assert.deepEqual([kept.payload, kept.packet.retain], ['gone', true])
  await Promise.all([watcher.close(), late.close()])
}

async function overWebSockets () {
  if (!WEB_MQTT_PORT) return
  const web = await Peer.open('js-web', NEW, {}, `ws://${MQTT_HOST}:${WEB_MQTT_PORT}/mqtt`)
  await web.client.subscribeAsync('js/web', { qos: 1 })
  for (const body of ['plain', 'x'.repeat(100_000)]) await web.client.publishAsync('js/web', body, { qos: 1 })
  assert.deepEqual((await web.take(2)).map(one => one.payload.length), [5, 100_000])
  await web.close()
}

async function patterns () {
  for (const pattern of [bothVersions, propertiesAndAliases, retainedAndWill, overWebSockets]) {
    await pattern()
    console.log(`mqttjs: ${pattern.name}`)
  }
}

const STORED = { clean: false, properties: { sessionExpiryInterval: 3600 } }

async function store () {
  const session = await Peer.open('js-stored', NEW, STORED)
  await session.client.subscribeAsync('js/stored', { qos: 1 })
  await session.close()
  const sender = await Peer.open('js-store', OLD)
  await Promise.all(Array.from({ length: 100 }, (_, number) => sender.client.publishAsync('js/stored', `${number}`, { qos: 1 })))
  await sender.close()
}

async function fetch () {
  const session = await Peer.open('js-stored', NEW, STORED)
  assert.equal(session.connack.sessionPresent, true)
  const got = await session.take(100)
  assert.deepEqual(got.map(one => one.payload), Array.from({ length: 100 }, (_, number) => `${number}`))
  await session.close()
}

await { patterns, store, fetch }[process.argv[2]]()
