# SPDX-License-Identifier: Apache-2.0
"""A certificate authority in a folder, by the program openssl, and kubeconfigs that use it."""
import base64
import os
import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
DAYS = "365"


def openssl(*words):
    try:
        subprocess.run(["openssl", *words], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise OSError("cannot find the program openssl, which makes the certificates; install it") from None
    except subprocess.CalledProcessError as error:
        raise OSError(f"openssl {words[0]} failed: {error.stderr.strip()}") from error


class Authority:
    def __init__(self, folder, name="test-ca"):
        self.folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.certificate, self.key = self.path("ca.crt"), self.path("ca.key")
        if not (os.path.exists(self.certificate) and os.path.exists(self.key)):
            openssl("req", "-x509", *KEY, "-days", DAYS, "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, subject, extension=""):
        """Returns the files of a certificate and its key."""
        key, request, certificate, extensions = (self.path(f"{name}.{kind}") for kind in ("key", "csr", "crt", "ext"))
        openssl("req", "-new", *KEY, "-subj", subject, "-keyout", key, "-out", request)
        with open(extensions, "w", encoding="utf-8") as file:
            file.write(extension)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days", DAYS,
                "-extfile", extensions, "-out", certificate)
        return certificate, key

    def issue_client(self, name, user, group):
        return self.issue(name, f"/O={group}/CN={user}", "extendedKeyUsage=clientAuth\n")

    def issue_server(self, addresses=("127.0.0.1",)):
        names = ",".join([*(f"IP:{address}" for address in addresses), "DNS:localhost", "DNS:kubernetes.default.svc"])
        return self.issue("server", "/CN=kube-apiserver", f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")


def write_kubeconfig(path, server, authority, client=None, inline=False, token=None, token_file=None):
    """`client`: the files of a certificate and its key. With `inline`, the kubeconfig has the content of all files."""
    def secret(name, file):
        if not inline:
            return f"{name}: {os.path.abspath(file)}"
        with open(file, "rb") as stream:
            return f"{name}-data: {base64.b64encode(stream.read()).decode()}"

    user = (f"token: {token}" if token else f"tokenFile: {token_file}" if token_file else
            secret("client-certificate", client[0]) + "\n    " + secret("client-key", client[1]))
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(f"apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster:\n"
                   f"    server: {server}\n    {secret('certificate-authority', authority.certificate)}\n"
                   f"contexts:\n- context:\n    cluster: k\n    user: u\n  name: c\n"
                   f"users:\n- name: u\n  user:\n    {user}\n")
    os.rename(path + ".new", path)
