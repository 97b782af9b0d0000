// What jasmine tells of each spec, a line of JSON for each.

export default class Reporter {
  specDone(spec) {
    const message = spec.failedExpectations.map((failed) => failed.message).join("; ");
    process.stdout.write(`\nRESULT ${JSON.stringify({ name: spec.fullName, status: spec.status, message })}\n`);
  }
}
