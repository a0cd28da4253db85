package text

import "net/url"

// HTTPURL returns an http(s) URL with a host, or nil. An error would repeat the address, which may hold a password.
func HTTPURL(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil
	}
	return u
}

// PortOf returns the port of an http(s) URL, or its scheme's default.
func PortOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}
