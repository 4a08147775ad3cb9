import { render } from 'preact';
import { App } from './app.js';
import './page.css';
import './timeline/timeline.css';
import { server } from './source.js';

render(<App source={server} />, document.querySelector('#page')!);
