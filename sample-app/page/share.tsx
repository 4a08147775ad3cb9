import { useRef, useState } from 'preact/hooks';
import type { LiveRun } from './live-run.js';
import type { Messages } from './messages/messages.js';
import { drawPicture } from './share-picture.js';
import type { ShownSale } from './sales.js';

interface ShareProps {
  messages: Messages;
  servers: number;
  live: LiveRun;
  sales: readonly ShownSale[];
  link: () => string;
}

/** The buttons that share a run. */
export function Share({ messages, servers, live, sales, link }: ShareProps) {
  const box = useRef<HTMLParagraphElement>(null);
  const [isCopied, setCopied] = useState(false);
  /** A link that could not be copied. */
  const [shownLink, setShownLink] = useState<string>();
  const save = async () => {
    // The address of this machine leads nobody else to the run.
    const isLocal = /^(localhost|127\.|\[)/.test(location.hostname);
    const address = isLocal ? undefined : link();
    const canvas = drawPicture({ messages, servers, live, sales, address, element: box.current! });
    const url = URL.createObjectURL(await toBlob(canvas));
    Object.assign(document.createElement('a'), {
      href: url,
      download: messages.share.fileName,
    }).click();
    // The download has begun when the next task runs.
    setTimeout(() => URL.revokeObjectURL(url));
  };
  const copy = async () => {
    const url = link();
    history.replaceState(undefined, '', url);
    // Without HTTPS there is no clipboard, and the browser may deny access to it.
    const copied = await navigator.clipboard?.writeText(url).then(
      () => true,
      () => false,
    );
    setCopied(copied ?? false);
    setShownLink(copied ? undefined : url);
  };
  const isOver = sales.some(({ sale }) => sale?.end);
  return (
    <p class="share" ref={box}>
      <button type="button" class="quiet" aria-disabled={!isOver} onClick={() => isOver && save()}>
        {messages.share.picture}
      </button>
      <button type="button" class="quiet" onClick={copy}>
        {messages.share.link}
      </button>
      {shownLink && (
        <input
          readOnly
          value={shownLink}
          aria-label={messages.share.shownLink}
          onFocus={(event) => event.currentTarget.select()}
        />
      )}
      <span class="spoken" role="status">
        {isCopied ? messages.share.copied : shownLink ? messages.share.shownLink : ''}
      </span>
    </p>
  );
}

const toBlob = (canvas: HTMLCanvasElement) =>
  new Promise<Blob>((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('no picture'))), 'image/png'),
  );
