import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { gap } from "../signals/_child.ts";
import { ServiceProcess } from "./_process.ts";

const WORKER = "../../examples/08_service/worker.ts";
const COORDINATOR = "../../examples/08_service/coordinator.ts";

/** The number of requests under load. */
const LOAD = 10_000;

const startWorker = () => ServiceProcess.start(WORKER, "0");
const startCoordinator = (...workers: readonly ServiceProcess[]) =>
  ServiceProcess.start(COORDINATOR, "0", ...workers.map((worker) => worker.url("")));

/** Repeats a request until its response fits. */
async function askUntil(service: ServiceProcess, path: string, status: number): Promise<string> {
  for (;;) {
    const answer = await service.ask(path);
    if (answer.status === status) return answer.text;
  }
}

/** Repeats a request until another one is in flight. */
async function atWork(service: ServiceProcess): Promise<void> {
  while (!/^lastcall_service_in_flight\{.*\} 2$/m.test((await service.ask("/metrics")).text));
}

describe(`a service process on ${detectRuntime().name} on SIGTERM`, () => {
  it("a service on SIGTERM is not ready, refuses requests, finishes those in flight and exits with 0", async () => {
    await using worker = await startWorker();
    assertEquals((await worker.ask("/health/ready")).status, 200);
    const slow = worker.ask("/tasks/1500");
    await atWork(worker);
    worker.signal("SIGTERM");
    await askUntil(worker, "/health/ready", 503);
    const refused = await worker.ask("/tasks/0");
    assertEquals([refused.status, JSON.parse(refused.text).error.code], [503, 5006]);
    assertEquals((await worker.ask("/health/live")).status, 200, "it lives while it drains");
    assertEquals((await worker.ask("/health/ready")).status, 503);
    const { status, text } = await slow;
    assertEquals([status, JSON.parse(text).done], [200, true]);
    assertEquals(await worker.ended(), 0, worker.stderr);
  });

  it("a service on SIGTERM ends endless streams that listen to stopping", async () => {
    await using worker = await startWorker();
    const events = await fetch(worker.url("/events"));
    const reader = events.body!.pipeThrough(new TextDecoderStream()).getReader();
    assertMatch((await reader.read()).value ?? "", /data: 1/);
    worker.signal("SIGTERM");
    while (!(await reader.read()).done);
    assertEquals(await worker.ended(), 0, worker.stderr);
  });

  it("a service on SIGTERM cancels requests near the deadline, and exits with 0 when they end", async () => {
    await using service = await ServiceProcess.start("fixtures/stubborn.ts", "1000");
    const asked = service.ask("/");
    await service.printed(/asked/);
    service.signal("SIGTERM");
    assertEquals(await asked, { status: 200, text: "cut short" });
    assertEquals(await service.ended(), 0, service.stderr);
    assertStringIncludes(service.stdout, "cancelled: deadline");
  });

  it("a service on SIGTERM reports requests that did not end in time, and exits with 124", async () => {
    await using service = await ServiceProcess.start("fixtures/stubborn.ts", "1000");
    const asked = [service.ask("/never"), service.ask("/never")].map((it) => it.catch(() => {}));
    await service.printed(/asked \/never\nasked \/never/);
    service.signal("SIGTERM");
    assertEquals(await service.ended(), 124, service.stderr);
    assertMatch(service.stderr, /timed out in .*exit code 124/);
    assertMatch(service.stderr, /stubborn: hung .*on GET \/never \(.*\), GET \/never/);
    await Promise.all(asked);
  });

  it("a service exits with 143 after a second SIGTERM", async () => {
    await using service = await ServiceProcess.start("fixtures/stubborn.ts", "30000");
    const asked = service.ask("/");
    await service.printed(/asked/);
    service.signal("SIGTERM");
    await service.printed(/stopping/);
    await gap();
    service.signal("SIGTERM");
    assertEquals(await asked, { status: 200, text: "cut short" });
    assertEquals(await service.ended(), 143);
    assertStringIncludes(service.stdout, "cancelled: forced");
    assertStringIncludes(service.stderr, "forced in ");
  });

  it("a service exits after a second SIGTERM also when a request ignores its signals", async () => {
    await using service = await ServiceProcess.start("fixtures/stubborn.ts", "30000");
    const asked = [service.ask("/never"), service.ask("/")].map((it) => it.catch(() => {}));
    await service.printed(/asked \/$/m);
    await service.printed(/asked \/never$/m);
    service.signal("SIGTERM");
    await service.printed(/stopping/);
    await gap();
    service.signal("SIGINT");
    assertEquals(await service.ended(), 130);
    await Promise.all(asked);
  });
});

describe(`a coordinator on ${detectRuntime().name}`, () => {
  it(`WorkerPool loses no request of ${LOAD} when one of two workers is terminated under load`, async () => {
    await using first = await startWorker();
    await using second = await startWorker();
    await using coordinator = await startCoordinator(first, second);
    const TOTAL = LOAD;
    let asked = 0;
    let wrong: string[] = [];
    const by = new Map<number, number>();
    const client = async () => {
      while (asked < TOTAL) {
        if (++asked === TOTAL / 4) first.signal("SIGTERM");
        try {
          const response = await fetch(coordinator.url("/tasks/1"));
          const text = await response.text();
          if (response.status !== 200) wrong.push(`${response.status} ${text}`);
          const { by: pid } = JSON.parse(text);
          by.set(pid, (by.get(pid) ?? 0) + 1);
        } catch (error) {
          wrong.push(String(error));
        }
      }
    };
    await Promise.all(Array.from({ length: 50 }, client));
    wrong = wrong.slice(0, 5);
    assertEquals([wrong, [...by.values()].reduce((sum, count) => sum + count)], [[], TOTAL]);
    assertEquals(by.size, 2, "both have worked");
    assert([...by.values()].every((count) => count > TOTAL / 20), String([...by.values()]));
    assertEquals(await first.ended(), 0, first.stderr);
    coordinator.signal("SIGTERM");
    assertEquals(await coordinator.ended(), 0, coordinator.stderr);
  });

  it("WorkerPool returns the last 503 when all workers are stopping, and they finish requests in flight", async () => {
    await using first = await startWorker();
    await using second = await startWorker();
    await using coordinator = await startCoordinator(first, second);
    const slow = [coordinator.ask("/tasks/4000"), coordinator.ask("/tasks/4000")];
    // Wait for both before the first stop: a task that has ended by then would never be seen.
    await Promise.all([atWork(first), atWork(second)]);
    for (const worker of [first, second]) {
      worker.signal("SIGTERM");
      await askUntil(worker, "/health/ready", 503);
    }
    const refused = await coordinator.ask("/tasks/0");
    assertEquals([refused.status, JSON.parse(refused.text).error.code], [503, 5006]);
    for (const { status } of await Promise.all(slow)) assertEquals(status, 200);
    assertEquals([await first.ended(), await second.ended()], [0, 0]);
  });

  it("WorkerPool discovers workers by host name", async () => {
    await using worker = await startWorker();
    const name = `dns://localhost:${worker.port}`;
    await using coordinator = await ServiceProcess.start(COORDINATOR, "0", name);
    assertEquals((await coordinator.ask("/tasks/0")).status, 200);
    const [found] = JSON.parse((await coordinator.ask("/status/workers")).text);
    assertEquals([found.url, found.healthy], [`http://127.0.0.1:${worker.port}`, true]);
  });

  it("a coordinator on SIGTERM finishes requests in flight and refuses others", async () => {
    await using worker = await startWorker();
    await using coordinator = await startCoordinator(worker);
    const slow = coordinator.ask("/tasks/1500");
    await atWork(worker);
    coordinator.signal("SIGTERM");
    await askUntil(coordinator, "/health/ready", 503);
    assertEquals(JSON.parse((await coordinator.ask("/tasks/0")).text).error.code, 5006);
    assertEquals((await slow).status, 200);
    assertEquals(await coordinator.ended(), 0, coordinator.stderr);
  });
});
