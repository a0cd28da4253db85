// Package servers compares what the source of Prometheus reads from several real servers. All of them scrape one exporter, whose
// usage is known. The tests take nine minutes, in which they mostly wait for samples of five: make servers runs them.
package servers
