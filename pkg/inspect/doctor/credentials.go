package doctor

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// certificateFault returns the check for a certificate that is not trusted.
func (s *examinedSource) certificateFault(err error, u *url.URL, message string) (Check, bool) {
	const id = stageTLS
	if unknown, ok := asError[x509.UnknownAuthorityError](err); ok {
		return newCheck(Error, id, message, s.adviseAuthority(unknown.Cert, u)...), true
	}
	if invalid, ok := asError[x509.CertificateInvalidError](err); ok {
		text := "Let the server's administrator renew the certificate."
		if invalid.Cert != nil {
			text = fmt.Sprintf("Let the server's administrator renew the certificate, which is valid from %s to %s.",
				invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
		}
		return newCheck(Error, id, message, Advice{Text: text}), true
	}
	if host, ok := asError[x509.HostnameError](err); ok && u != nil {
		var names []string
		if host.Certificate != nil {
			names = append(names, host.Certificate.DNSNames...)
			for _, ip := range host.Certificate.IPAddresses {
				names = append(names, ip.String())
			}
		}
		for i := range names {
			names[i] = text.Excerpt(names[i])
		}
		if len(names) == 0 {
			return newCheck(Error, id, message, Advice{Text: "Let the server's administrator issue a certificate for " + u.Hostname() + "."}), true
		}
		other := *u
		other.Host = names[0]
		if port := u.Port(); port != "" {
			other.Host = net.JoinHostPort(names[0], port)
		}
		return newCheck(Error, id, message, Advice{
			Text: fmt.Sprintf("The certificate is for %s. %s name the server so:", text.FirstN(names), s.inConfiguration()),
			YAML: s.addressYAML(httpclient.WithoutSecrets(&other)),
		}), true
	}
	return Check{}, false
}

// adviseAuthority says how to trust the authority that signed a certificate.
func (s *examinedSource) adviseAuthority(signed *x509.Certificate, u *url.URL) []Advice {
	issuer := "an authority that is not trusted"
	if signed != nil {
		issuer = text.Excerpt(cmp.Or(signed.Issuer.CommonName, signed.Issuer.String()))
	}
	if strings.HasPrefix(issuer, "openshift-service-serving-signer") {
		return []Advice{{
			Text: "OpenShift's service CA signed the certificate. " + s.inConfiguration() + " trust it:",
			YAML: "metricProvider:\n  caFile: /var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt\n",
		}}
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	const file = "ca.crt"
	advice := []Advice{{
		Text: fmt.Sprintf("%s signed the certificate. Write the last certificate that the server sends to %s, and compare it with what the server's administrator says:", issuer, file),
		Command: "openssl s_client -showcerts -connect " + live.ShellQuote(host) + " </dev/null 2>/dev/null | " +
			`awk '/BEGIN CERT/ {c = ""} {c = c $0 "\n"} /END CERT/ {last = c} END {printf "%s", last}' > ` + file,
	}}
	caFile := cmp.Or(s.options.Source.CAFile, s.Spec.MetricProvider.CAFile)
	workload := s.configuration.Workload
	switch volume, key := s.mounted(caFile); {
	case volume != nil && volume.ConfigMap != nil:
		advice = append(advice, Advice{
			Text: "Then write it to the ConfigMap behind caFile:",
			Command: fmt.Sprintf("kubectl -n %s create configmap %s --from-file=%s=%s --dry-run=client -o yaml | kubectl apply -f -",
				workload.Namespace, live.ShellQuote(volume.ConfigMap.Name), live.ShellQuote(key), file),
		})
	case caFile != "":
		advice = append(advice, Advice{Text: "Then write it to caFile:", Command: fmt.Sprintf("cp %s %s", file, live.ShellQuote(caFile))})
	default:
		advice = append(advice, Advice{
			Text: "Then mount it, by the chart's value caConfigMap, and " + strings.ToLower(s.inConfiguration()[:1]) + s.inConfiguration()[1:] + " name it:",
			YAML: "metricProvider:\n  caFile: /etc/plimsoll/ca/ca.crt\n",
		})
	}
	return advice
}

// mounted returns the volume of the scheduler's pod that a file is in, and the file's key in it; nil if that is not known.
func (s *examinedSource) mounted(file string) (volume *corev1.Volume, key string) {
	w := s.configuration.Workload
	if w == nil || len(w.Pods) == 0 || file == "" {
		return nil, ""
	}
	pod := s.objects.pod(w.Namespace, w.Pods[0])
	if pod == nil {
		return nil, ""
	}
	for i := range pod.Spec.Containers {
		for _, mount := range pod.Spec.Containers[i].VolumeMounts {
			below, ok := strings.CutPrefix(file, strings.TrimSuffix(mount.MountPath, "/")+"/")
			if !ok {
				continue
			}
			if j := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }); j >= 0 {
				return &pod.Spec.Volumes[j], path.Base(below)
			}
		}
	}
	return nil, ""
}

// claims are those of a service account's token that matter here.
type claims struct {
	Subject string  `json:"sub"`
	Expiry  float64 `json:"exp"`
}

// claimsOf reads the claims of a JSON Web Token, without verifying it.
func claimsOf(token string) (c claims, ok bool) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return claims{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return claims{}, false
	}
	return c, true
}

// adviseToken says what to do about a token that a source refuses.
func (s *examinedSource) adviseToken(code int) []Advice {
	if s.Route == live.ServiceProxy {
		return []Advice{{
			Text: "Through the API server's proxy no token is sent. Check from the scheduler's pod, with its token:", Command: execCommand(s.configuration.Workload),
		}}
	}
	provider := s.Spec.MetricProvider
	file := cmp.Or(s.options.Source.TokenFile, provider.TokenFile)
	token := string(provider.Token)
	if file != "" {
		content, _ := os.ReadFile(file) // without it nothing is said of the token
		token = string(content)
	}
	c, isJWT := claimsOf(token)
	rest, isAccount := strings.CutPrefix(c.Subject, "system:serviceaccount:")
	namespace, account, _ := strings.Cut(rest, ":")
	expired := isJWT && c.Expiry > 0 && time.Unix(int64(c.Expiry), 0).Before(time.Now())
	switch {
	case token == "":
		return []Advice{{
			Text: "No token is sent. Mount one, by the chart's value tokenSecret, and " + strings.ToLower(s.inConfiguration()[:1]) + s.inConfiguration()[1:] + " name it:",
			YAML: "metricProvider:\n  tokenFile: /etc/plimsoll/token/token\n",
		}}
	case code == http.StatusForbidden && isAccount && !expired && isName(namespace) && isName(account):
		return []Advice{
			{
				Text:    fmt.Sprintf("The token is that of %s. If the server authorizes by the API server, as OpenShift's monitoring does, grant the right:", text.Excerpt(c.Subject)),
				Command: fmt.Sprintf("kubectl create clusterrolebinding plimsoll-monitoring-view --clusterrole=cluster-monitoring-view --serviceaccount=%s:%s", namespace, account),
			},
		}
	case isAccount && isName(namespace) && isName(account):
		text := fmt.Sprintf("The token is that of %s.", c.Subject)
		if expired {
			text = fmt.Sprintf("The token of %s expired %s ago.", c.Subject, shownDuration(time.Since(time.Unix(int64(c.Expiry), 0))))
		}
		create := fmt.Sprintf("kubectl -n %s create token %s --duration=8760h", namespace, account)
		if volume, key := s.mounted(file); volume != nil && volume.Secret != nil {
			return []Advice{{
				Text: text + " Write a new one to the Secret behind tokenFile:",
				Command: fmt.Sprintf(`kubectl -n %s create secret generic %s --from-literal=%s="$(%s)" --dry-run=client -o yaml | kubectl apply -f -`,
					s.configuration.Workload.Namespace, live.ShellQuote(volume.Secret.SecretName), live.ShellQuote(key), create),
			}}
		}
		return []Advice{{Text: text + " Write a new one to tokenFile:", Command: create + " > " + live.ShellQuote(cmp.Or(file, "token"))}}
	case expired:
		return []Advice{{Text: fmt.Sprintf("The token expired %s ago. Get a new one from the server's administrator, and write it to tokenFile.",
			shownDuration(time.Since(time.Unix(int64(c.Expiry), 0))))}}
	}
	return []Advice{{Text: "The server does not accept the token. Get a new one from its administrator, and write it to tokenFile."}}
}
