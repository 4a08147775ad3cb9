import { render } from 'preact';
import { App } from '../app.js';
import '../page.css';
import '../timeline/timeline.css';
import { DemoBar } from './demo-bar.js';
import './demo-bar.css';
import { DemoSource } from './demo-source.js';

const source = new DemoSource(location.search);

render(
  <App source={source} top={(language) => <DemoBar source={source} language={language} />} />,
  document.querySelector('#page')!,
);
