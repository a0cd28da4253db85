package report

import "time"

// Origin says how a report was made, so that others can make the same. It holds no secret.
type Origin struct {
	Made time.Time `json:"made"`
	// Version is the program's, and Kubernetes that of the scheduler in it.
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
	// Command is the command line, quoted for a shell.
	Command string `json:"command"`
	// Source tells where the pods come from.
	Source string `json:"source"`
	// Inputs name the pods of each run.
	Inputs         []Fingerprint   `json:"inputs"`
	Configurations []Configuration `json:"configurations,omitempty"`
}

// Fingerprint identifies the pods of a run: SHA256 is the checksum of the file that --save writes, in hexadecimal digits.
type Fingerprint struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// Configuration is a file of --config. SHA256 is the checksum of the file; Text is the file as YAML without comments and secrets.
type Configuration struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}
