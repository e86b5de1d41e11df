/* Search without a server. A page that is opened as a file may not start a Worker from another file.
   This class runs the script of the worker in a hidden frame instead, with the same interface. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.head.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...files) => files.map((file) => this.load(file));
      this.load(url).addEventListener("load", () => {
        this.waiting.forEach((data) => this.send(data));
        this.waiting = null;
      });
    }

    load(file) {
      const script = this.inside.document.createElement("script");
      script.async = false;
      script.src = new URL(file, document.baseURI).href;
      this.inside.document.body.append(script);
      return script;
    }

    send(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.send(data);
    }

    terminate() {}
  };
}
