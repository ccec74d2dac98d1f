/** The same answer; `ended` is called once when its body has been read to the end, broke or was given up. */
export function trackedBody(response: Response, ended: () => void): Response {
  if (response.body === null) {
    ended();
    return response;
  }
  const reader = response.body.getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        ended();
        controller.close();
      } catch (error) {
        ended();
        controller.error(error);
      }
    },
    async cancel(reason) {
      ended();
      await reader.cancel(reason);
    },
  }, { highWaterMark: 0 });
  return new Response(body, response);
}
